package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

const (
	// recordGrace is how long the last records of a cancelled run may take.
	recordGrace = 5 * time.Second
	// maxEmptyInterrupts is how many interrupts in a row may bring no message before the
	// run ignores them during one call: a host that signals for ever must not make it
	// call the model for ever.
	maxEmptyInterrupts = 3
)

// errInterrupted is the cause for which an interrupt cancels a call.
var errInterrupted = errors.New("interrupted")

// Run does the work of one request and returns its end. It obeys ctx: if the cause is
// [ErrCancelled], it keeps the output so far and returns within a second; for any
// other cause, it records nothing more and returns [ErrDrain]. If the outcome has no
// error, the host has closed the run in WouldEnd; the caller records every other end.
func Run(ctx context.Context, cfg Config, in Input, h Host) Outcome {
	r := newRun(ctx, cfg, in, h)
	release := r.openRecordCtx()
	defer release()
	return r.outcome(r.run())
}

// run is the state of one Run. The goroutine of Run owns it; running tools share only
// the fields that toolStep guards.
type run struct {
	ctx context.Context
	// recordCtx is the context of recording methods; see openRecordCtx.
	recordCtx context.Context
	cfg       Config
	in        Input
	host      Host
	tools     map[string]tool.Tool
	specs     []llm.ToolSpec
	overhead  int // the size of the instructions and the tools, in tokens

	conv      []chat.Message
	sent      []chat.Message // conv in the form that the current call sends
	text      string         // text of the journaled steps
	offset    int64          // its length, even if the host did not pass Input.Text
	step      int            // journaled model calls
	usage     chat.Usage
	discarded chat.Usage // usage of answers that were discarded since the last record

	attempts         attempts // of the current step
	emptyAnswers     int      // of the current step
	compactionForced bool     // the provider refused the current step as too long, so it was compacted
	mustCompact      bool
	guess            *fault.Error // the refusal that may mean that the prompt is too long
	tooLong          *fault.Error // the refusal that says so
	mediaReplaced    mediaScope   // the media that are replaced by their names, because the provider refused a prompt with them
	unseenBudget     int          // maximum size of the messages that the model has not seen, in tokens
	interrupted      bool         // an interrupt stopped a call and was not delivered yet
	emptyInterrupts  int          // interrupts in a row without a message
	calls            toolCalls    // the tool calls since the last message
	guides           guides       // the project files that the model has
}

func newRun(ctx context.Context, cfg Config, in Input, h Host) *run {
	r := &run{
		ctx: ctx, cfg: cfg, in: in, host: h,
		tools: map[string]tool.Tool{},
		conv:  slices.Clone(in.Messages),
		text:  in.Text, offset: max(in.Offset, int64(len(in.Text))),
		step: in.Step, usage: in.Usage,
	}
	r.calls = recallCalls(r.conv, cfg.Bounds.Repeats)
	for _, t := range cfg.Tools {
		r.tools[t.Spec().Name] = t
	}
	if cfg.Specs == nil {
		cfg.Specs = Specs(cfg.Tools)
	}
	r.setPrefix(cfg.System, cfg.Specs)
	return r
}

// setPrefix sets the part of the prompts that comes before the conversation.
func (r *run) setPrefix(system string, specs []llm.ToolSpec) {
	r.cfg.System, r.specs, r.overhead = system, specs, overheadTokens(system, specs)
}

// Specs describes tools to a model.
func Specs(tools []tool.Tool) []llm.ToolSpec {
	out := make([]llm.ToolSpec, len(tools))
	for i, t := range tools {
		s := t.Spec()
		out[i] = llm.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema}
	}
	return out
}

// openRecordCtx creates the context of recording methods: it outlives a cancelled run by
// recordGrace, and ends with a draining one.
func (r *run) openRecordCtx() (release func()) {
	rec, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	r.recordCtx = rec
	released := make(chan struct{})
	done := make(chan struct{})
	unwatch := context.AfterFunc(r.ctx, func() {
		defer close(done)
		if r.draining() {
			cancel(ErrDrain)
			return
		}
		grace := time.NewTimer(recordGrace)
		defer grace.Stop()
		select {
		case <-released:
		case <-grace.C:
			cancel(context.DeadlineExceeded)
		}
	})
	return func() {
		close(released)
		if !unwatch() {
			<-done
		}
		cancel(nil)
	}
}

func (r *run) outcome(err error) Outcome {
	return Outcome{Err: err, Text: r.text, Usage: r.usage, Steps: r.step}
}

// run returns nil if the host has closed the run.
func (r *run) run() error {
	ended, err := r.resume()
	for !ended && err == nil {
		ended, err = r.turn()
	}
	return err
}

func (r *run) resume() (ended bool, err error) {
	switch p := r.in.Pending; {
	case p != nil:
		return r.completeStep(p.Message, *p)
	case r.in.Ended:
		return r.wouldEnd()
	}
	return false, nil
}

// turn makes one model call, unless something forbids it, and handles the answer.
func (r *run) turn() (ended bool, err error) {
	if err := r.collectMessages(); err != nil {
		return false, err
	}
	if len(r.conv) == 0 {
		return false, fault.New(fault.Invalid, "There is no message to answer.")
	}
	llm.Prepare(r.ctx, r.cfg.Model)
	if err := r.stopReason(); err != nil {
		return false, err
	}
	if err := r.checkWindow(); err != nil {
		return false, err
	}
	if again, err := r.fitContext(); again || err != nil {
		return false, r.fitError(err)
	}
	a := r.callModel()
	switch {
	case r.draining():
		return false, ErrDrain
	case a.complete && a.err != nil: // an error of the host
		return false, a.err
	case a.complete:
		return r.handleAnswer(a)
	case r.ctx.Err() == nil && a.bound != nil:
		return false, r.stopAtBound(a)
	case a.interrupted || r.ctx.Err() != nil:
		return false, r.recordPartial(a)
	}
	return false, r.retry(a)
}

// collectMessages adds the waiting steers and interrupts. The messages of a raised signal
// are among those that the host returns now.
func (r *run) collectMessages() error {
	if err := r.stopReason(); err != nil {
		return err
	}
	if r.host.Interrupts().take() {
		r.interrupted = true
	}
	injected, err := r.host.BeforeModel(r.recordCtx, r.step+1, r.usage)
	if err != nil {
		return r.hostError("collect messages", err)
	}
	switch {
	case len(injected) > 0:
		r.emptyInterrupts = 0
	case r.interrupted:
		r.emptyInterrupts++
	}
	r.interrupted = false
	r.inject(injected)
	return r.stopReason()
}

func (r *run) inject(injected []Injected) {
	for _, i := range injected {
		r.conv = append(r.conv, i.Messages...)
		r.calls = toolCalls{}
	}
}

// handleAnswer continues after a complete answer.
func (r *run) handleAnswer(a answer) (ended bool, err error) {
	if len(a.message.ToolCalls()) == 0 && strings.TrimSpace(a.message.Text()) == "" {
		return r.handleEmptyAnswer(a)
	}
	if err := r.record(a, false); err != nil {
		return false, err
	}
	return r.completeStep(a.message, PendingStep{})
}

// handleEmptyAnswer handles an answer with neither text nor tool calls. It repeats the
// call once, then accepts the empty answer if it followed tool results.
func (r *run) handleEmptyAnswer(a answer) (ended bool, err error) {
	r.discardUsage(a.usage)
	if err := r.resetText(a); err != nil {
		return false, err
	}
	var cause error
	switch a.stop {
	case llm.StopRefusal:
		return false, codedError(fault.Denied, "refusal", "The model declined to answer this.")
	case llm.StopLength:
		cause = codedError(fault.Invalid, "output_length", "The model used up its output limit before it said anything. Raise the limit or ask for less.")
	default:
		cause = codedError(fault.Unavailable, "empty_answer", "The model gave an empty answer, twice. Ask again, or ask differently.")
	}
	if r.emptyAnswers == 0 {
		r.emptyAnswers++
		return false, r.recordFailure(cause, 0)
	}
	if a.stop != llm.StopLength && r.text != "" && r.conv[len(r.conv)-1].Role == chat.Tool {
		return r.wouldEnd()
	}
	return false, cause
}

// recordFailure records a failed call and what it has used, before the next call.
func (r *run) recordFailure(cause error, delay time.Duration) error {
	if err := r.host.ModelFailed(r.recordCtx, r.step+1, cause, r.discarded, delay); err != nil {
		return r.hostError("record failed model call", err)
	}
	r.discarded = chat.Usage{}
	return nil
}

func codedError(kind fault.Kind, code, message string) error {
	return &fault.Error{Kind: kind, Code: code, Message: message}
}

// recordPartial records the part of an answer that came before the call was stopped.
func (r *run) recordPartial(a answer) error {
	r.interrupted = a.interrupted
	if isEmptyMessage(a.message) && strings.TrimSpace(a.reasoning) == "" {
		if err := r.resetText(a); err != nil {
			return err
		}
		return r.stopReason()
	}
	if err := r.record(a, true); err != nil {
		return err
	}
	_, err := r.completeStep(a.message, PendingStep{Interrupted: true})
	return err
}

// record makes the answer the next step of the journal.
func (r *run) record(a answer, interrupted bool) error {
	text := a.message.Text()
	if text != "" && r.offset > 0 {
		text = stepSeparator + text
	}
	r.usage = r.usage.Add(a.usage)
	rewritten := rewrittenMessages(r.conv, r.sent)
	err := r.host.ModelDone(r.recordCtx, Step{
		Number: r.step + 1, Message: a.message, Usage: a.usage.Add(r.discarded), Stop: a.stop,
		Interrupted: interrupted, Offset: r.offset + int64(len(text)), ModelTime: a.duration,
		Rewritten: rewritten, WithoutThinking: a.withoutThinking,
	})
	if err != nil {
		return r.hostError("record model answer", err)
	}
	r.step++
	r.text += text
	r.offset += int64(len(text))
	r.discarded = chat.Usage{}
	r.conv = r.sent
	if a.withoutThinking {
		r.conv = dropThinking(r.conv)
	}
	r.attempts, r.emptyAnswers, r.compactionForced, r.guess, r.tooLong = attempts{}, 0, false, nil, nil
	return nil
}

// completeStep runs the open tool calls of a journaled answer and appends the step to
// the history. If there were no calls, it asks the host for the end.
func (r *run) completeStep(m chat.Message, p PendingStep) (ended bool, err error) {
	messages := []chat.Message{m}
	calls := m.ToolCalls()
	if len(calls) > 0 {
		results, err := r.runTools(calls, p)
		if err != nil {
			return false, err
		}
		messages = append(messages, chat.Message{Role: chat.Tool, Parts: results})
	}
	if r.draining() {
		return false, ErrDrain
	}
	if err := r.host.StepDone(r.recordCtx, r.step, messages); err != nil {
		return false, r.hostError("append step", err)
	}
	if r.cfg.Inline != nil {
		for i, m := range messages {
			messages[i] = r.cfg.Inline(r.recordCtx, m)
		}
	}
	r.conv = append(r.conv, messages...)
	if err := r.calls.add(calls, r.cfg.Bounds.Repeats); err != nil && r.ctx.Err() == nil {
		return false, err
	}
	if len(calls) > 0 || p.Interrupted {
		return false, r.stopReason()
	}
	return r.wouldEnd()
}

func (r *run) wouldEnd() (ended bool, err error) {
	if err := r.stopReason(); err != nil {
		return false, err
	}
	injected, err := r.host.WouldEnd(r.recordCtx, r.outcome(nil))
	if err != nil {
		return false, r.hostError("end run", err)
	}
	r.inject(injected)
	return len(injected) == 0, nil
}

// discardUsage counts the usage of an answer that no step contains.
func (r *run) discardUsage(u chat.Usage) {
	r.usage = r.usage.Add(u)
	r.discarded = r.discarded.Add(u)
}

// resetText cuts the streamed text back to the journaled steps.
func (r *run) resetText(a answer) error {
	if !a.streamed {
		return nil
	}
	if err := r.host.ResetText(r.recordCtx, r.offset); err != nil {
		return r.hostError("reset text", err)
	}
	return nil
}

// stopReason returns the reason why the run must stop, or nil.
func (r *run) stopReason() error {
	switch {
	case r.ctx.Err() == nil:
		return nil
	case r.draining():
		return ErrDrain
	}
	return ErrCancelled
}

func (r *run) draining() bool {
	return r.ctx.Err() != nil && !errors.Is(context.Cause(r.ctx), ErrCancelled)
}

// hostError wraps an error of the host, which ends the run. An error of a draining run is
// not a failure.
func (r *run) hostError(doing string, err error) error {
	if r.draining() {
		return ErrDrain
	}
	return fmt.Errorf("%s: %w", doing, err)
}
