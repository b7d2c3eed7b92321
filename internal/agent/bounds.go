package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// Bounds bound one answer of the model. Sizes are in bytes; 0 means no bound.
type Bounds struct {
	Text     int
	Thinking int
	// Arguments bounds the arguments of one tool call, and half of those of all
	// calls of an answer.
	Arguments int
	// Repeats is the number of times that the model may repeat the same sentences in an answer, or the
	// same tool calls with the same arguments, in a row.
	Repeats int
}

const (
	// CodeTooLong marks an answer that exceeds a size of [Bounds], CodeRepeats one that
	// exceeds its Repeats.
	CodeTooLong = "answer_too_long"
	CodeRepeats = "repeats"

	// limitInterval is the time between two checks of the limits during a call.
	limitInterval = 400 * time.Millisecond
	// callsPerAnswer times the bound of one call's arguments is the bound of all calls
	// of an answer together.
	callsPerAnswer = 2
)

// errLimit is the cause for which a reached limit cancels a call.
var errLimit = errors.New("limit reached")

// tooLongError returns the error of an answer that exceeds the setting.
func tooLong(what, setting string, limit int) error {
	return codedError(fault.TooLarge, CodeTooLong, fmt.Sprintf(
		"The answer was too long, so it was stopped: %s exceeded %s (limits.answer.%s). What was written until then is kept.", what, byteSize(limit), setting))
}

func byteSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// answerSize counts the parts of an answer as they arrive.
type answerSize struct {
	bounds                    Bounds
	text, thinking, arguments int
	call                      string // the current tool call
	callArguments             int
	sentences, thoughts       sentences
}

// add counts a chunk. It returns the part of its text that is within the bounds, and an
// error if that is not all of it, or if the model repeats itself.
func (a *answerSize) add(c llm.Chunk) (within string, err error) {
	switch c.Kind {
	case llm.ChunkText:
		if within = fit(c.Text, a.bounds.Text, &a.text); len(within) < len(c.Text) {
			return within, tooLong("its text", "text", a.bounds.Text)
		}
		return within, a.sentences.add(within, a.bounds.Repeats)
	case llm.ChunkReasoning:
		if within = fit(c.Text, a.bounds.Thinking, &a.thinking); len(within) < len(c.Text) {
			return within, tooLong("its thinking", "thinking", a.bounds.Thinking)
		}
		return within, a.thoughts.add(within, a.bounds.Repeats)
	case llm.ChunkToolInput:
		if a.call != c.ToolCallID {
			a.call, a.callArguments = c.ToolCallID, 0
		}
		within = fit(c.Text, a.bounds.Arguments, &a.callArguments)
		if within = fit(within, callsPerAnswer*a.bounds.Arguments, &a.arguments); len(within) < len(c.Text) {
			return within, tooLong("the arguments of its tool calls", "arguments", a.bounds.Arguments)
		}
	}
	return within, nil
}

// fit returns the beginning of text that fits, and counts it.
func fit(text string, limit int, used *int) string {
	if limit > 0 && *used+len(text) > limit {
		cut := limit - *used
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut]
	}
	*used += len(text)
	return text
}

// limitWatch checks the limits of the request while a call streams, because the call may
// last for hours, or never end.
type limitWatch struct {
	ctx    context.Context
	run    *run
	before chat.Usage // without the output of the call
	output atomic.Int64
	cancel context.CancelCauseFunc

	// mu is held during a check, so that no check runs after stop.
	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
	err     error
}

// watchLimits starts to watch the limits during a call. The returned watch's context ends
// when a limit is reached. The caller must call stop.
func (r *run) watchLimits(ctx context.Context, promptTokens int) *limitWatch {
	w := &limitWatch{run: r}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	// The prompt counts unless it alone exceeds a limit: otherwise, no answer to "continue"
	// could bring the request any further.
	w.before = r.usage.Add(r.cfg.estimateUsage(promptTokens, chat.Message{}))
	if r.host.CheckLimits(w.ctx, w.before) != nil {
		w.before = r.usage
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(limitInterval, w.check)
	return w
}

func (w *limitWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	output := w.run.cfg.priced(chat.Usage{OutputTokens: w.output.Load()})
	if err := w.run.host.CheckLimits(w.ctx, w.before.Add(output)); err != nil {
		w.err = err
		w.cancel(errLimit)
		return
	}
	w.timer.Reset(limitInterval)
}

// count adds the tokens of a chunk.
func (w *limitWatch) count(c llm.Chunk, exact *streamedTokens) {
	if c.Text != "" {
		w.output.Store(int64(exact.add(c.Text)))
	}
}

// stop ends the watch and returns the limit that was reached, or nil.
func (w *limitWatch) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
	w.cancel(nil)
	return w.err
}

// streamedTokens estimates the tokens of text that arrives in pieces.
type streamedTokens struct{ bytes, runes int }

func (t *streamedTokens) add(text string) int {
	t.bytes += len(text)
	t.runes += utf8.RuneCountInString(text)
	return countTokens(t.bytes, t.runes)
}

// stopAtBound records what an answer has until a limit or a bound stopped it, and returns
// the reason.
func (r *run) stopAtBound(a answer) error {
	if err := r.recordPartial(a); err != nil {
		return err
	}
	return a.bound
}
