package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

const (
	// maxBackoff is the maximum delay of the built-in backoff.
	maxBackoff = 30 * time.Second
	// maxRetryAfter is the longest delay that a provider may request. For a longer one
	// the request fails, so that people do not wait without knowing.
	maxRetryAfter = 10 * time.Minute

	continuePrompt = "Go on from where you stopped."
)

// stopNotes are appended to incomplete answers.
var stopNotes = map[llm.StopReason]string{
	llm.StopLength:  "(The answer stops here: it reached the model's output limit.)",
	llm.StopRefusal: "(The answer stops here: the model declined to go on.)",
}

// answer is the result of one model call.
type answer struct {
	// message is the complete answer, or the text and reasoning that came before the
	// call failed or was stopped.
	message   chat.Message
	reasoning string
	usage     chat.Usage
	stop      llm.StopReason
	duration  time.Duration
	silence   time.Duration // since the last chunk
	err       error
	// bound is the limit or the bound that stopped the call, or nil.
	bound error
	// complete reports that the model finished, streamed that text or reasoning was
	// streamed, interrupted that an interrupt came during the call.
	complete, streamed, interrupted bool
	// withoutThinking reports that the provider refused the thinking of earlier answers.
	withoutThinking bool
}

// callModel makes one model call and streams its answer.
func (r *run) callModel() answer {
	ctx, stop := r.interruptible()
	prompt := r.prompt()
	size := r.overhead + EstimateTokens(prompt)
	req := llm.Request{
		System: r.cfg.System, Messages: prompt, Tools: r.specs,
		MaxOutputTokens: r.outputLimit(size),
		Session:         r.in.SessionID,
		SilenceLimit:    r.attempts.silenceLimit(),
	}
	begun := time.Now()
	heard := begun
	watch := r.watchLimits(ctx, size)
	s := &partialAnswer{run: r, watch: watch, size: answerSize{bounds: r.cfg.Bounds}}
	var a answer
	for c, err := range r.cfg.Model.Stream(watch.ctx, req) {
		if err != nil {
			a.err = err
			break
		}
		heard = time.Now()
		if c.Kind == llm.ChunkDone {
			a.complete, a.message, a.usage, a.stop = true, c.Message, c.Usage, c.Stop
			a.withoutThinking = c.WithoutThinking
			break
		}
		if a.bound = s.add(c); a.bound != nil || watch.ctx.Err() != nil {
			break
		}
	}
	if err := watch.stop(); a.bound == nil {
		a.bound = err
	}
	a.interrupted = stop()
	a.duration, a.silence = time.Since(begun), time.Since(heard)
	a.streamed = s.streamed
	a.reasoning = s.textOf(chat.TypeReasoning)
	if !a.complete {
		if a.err == nil {
			a.err = fault.New(fault.Unavailable, "The model's answer was cut off.")
		}
		a.message = s.message()
		a.stop = llm.StopOther
		if s.streamed {
			a.usage = r.cfg.estimateUsage(size, a.message)
		}
		return a
	}
	a.usage = r.cfg.usageOf(a.usage, size, a.message)
	a.message = r.normalize(a.message, a.stop)
	a.err = s.reconcile(a.message.Text())
	a.streamed = s.streamed
	r.interrupted = a.interrupted
	return a
}

// prompt returns the conversation for the model. It extends the prompt of the last answered
// call: what that call changed is part of r.conv since then.
func (r *run) prompt() []chat.Message {
	r.sent = r.conv
	if r.mediaReplaced != noMedia {
		r.sent = replaceMedia(r.sent, r.mediaReplaced.from(r.sent))
	}
	r.sent = shortenResults(r.sent, firstUnseen(r.sent, r.unseenBudget), r.unseenBudget)
	return attributed(separateAnswers(Repair(r.sent)))
}

// attributed returns the messages with the names of their authors.
func attributed(messages []chat.Message) []chat.Message {
	if !slices.ContainsFunc(messages, func(m chat.Message) bool { _, known := m.Author(); return known }) {
		return messages
	}
	out := make([]chat.Message, len(messages))
	for i, m := range messages {
		out[i] = m.Attributed()
	}
	return out
}

// separateAnswers puts a user message after each assistant message that neither a user nor a
// tool message follows, because providers continue or refuse such a message at the end. It
// does so in the middle as well, because that is how the next answer was requested.
func separateAnswers(messages []chat.Message) []chat.Message {
	out := make([]chat.Message, 0, len(messages)+1)
	for _, m := range messages {
		if n := len(out); m.Role == chat.Assistant && n > 0 && out[n-1].Role == chat.Assistant {
			out = append(out, chat.Text(chat.User, continuePrompt))
		}
		out = append(out, m)
	}
	if n := len(out); n == 0 || out[n-1].Role == chat.Assistant {
		out = append(out, chat.Text(chat.User, continuePrompt))
	}
	return out
}

// interruptible returns a context that an interrupt cancels. stop ends the watch and
// reports whether there was an interrupt.
func (r *run) interruptible() (ctx context.Context, stop func() bool) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	if r.emptyInterrupts >= maxEmptyInterrupts {
		return ctx, func() bool { cancel(nil); return false }
	}
	unwatch := r.host.Interrupts().watch(func() { cancel(errInterrupted) })
	return ctx, func() bool {
		hit := unwatch()
		cancel(nil)
		return hit
	}
}

// partialAnswer collects an answer while it is streamed.
type partialAnswer struct {
	run      *run
	watch    *limitWatch
	tokens   streamedTokens
	size     answerSize
	parts    []partialPart
	streamed bool
	// hasText reports whether there was text.
	hasText bool
}

// partialPart is a part of a partial answer. Its text is a byte slice: appending each
// delta to a string would copy the whole answer for every token, in thousands of
// answers at the same time.
type partialPart struct {
	kind chat.PartType
	text []byte
}

// add adds a chunk. It returns the bound that the answer exceeds, or nil.
func (s *partialAnswer) add(c llm.Chunk) error {
	c.Text = strings.ToValidUTF8(c.Text, "\uFFFD")
	s.watch.count(c, &s.tokens)
	delta, err := s.size.add(c)
	if delta == "" {
		return err
	}
	switch c.Kind {
	case llm.ChunkText:
		s.appendPart(chat.TypeText, delta)
		s.streamText(delta)
	case llm.ChunkReasoning:
		s.streamed = true
		s.appendPart(chat.TypeReasoning, delta)
		s.run.host.Reasoning(delta)
	}
	return err
}

func (s *partialAnswer) streamText(delta string) {
	if !s.hasText && s.run.offset > 0 {
		delta = stepSeparator + delta
	}
	s.streamed, s.hasText = true, true
	s.run.host.Text(delta)
}

func (s *partialAnswer) appendPart(kind chat.PartType, delta string) {
	if n := len(s.parts); n > 0 && s.parts[n-1].kind == kind {
		s.parts[n-1].text = append(s.parts[n-1].text, delta...)
		return
	}
	s.parts = append(s.parts, partialPart{kind: kind, text: []byte(delta)})
}

// reconcile makes the streamed text equal to the text of the finished message.
func (s *partialAnswer) reconcile(final string) error {
	rest, ok := strings.CutPrefix(final, s.textOf(chat.TypeText))
	if !ok {
		if err := s.run.host.ResetText(s.run.recordCtx, s.run.offset); err != nil {
			return s.run.hostError("reset text", err)
		}
		s.hasText, rest = false, final
	}
	if rest != "" {
		s.streamText(rest)
	}
	return nil
}

// textOf returns the streamed text of one kind of part.
func (s *partialAnswer) textOf(kind chat.PartType) string {
	var all []byte
	for _, h := range s.parts {
		if h.kind == kind {
			all = append(all, h.text...)
		}
	}
	return string(all)
}

func (s *partialAnswer) message() chat.Message {
	var parts []chat.Part
	for _, h := range s.parts {
		parts = append(parts, chat.Part{Type: h.kind, Text: string(h.text)})
	}
	return chat.Message{Role: chat.Assistant, Parts: parts}
}

// normalize prepares a finished message for the journal: valid UTF-8, tool calls with
// JSON objects as inputs and with ids that are new in the conversation, and a note if
// the text was cut off. The result has the form in which it is stored: JSON that is
// stored and read again has its characters <, >, and & escaped, and what later calls
// send must not differ from what the next one sends.
func (r *run) normalize(m chat.Message, stop llm.StopReason) chat.Message {
	m.Role = chat.Assistant
	ids := r.callIDs()
	parts := make([]chat.Part, 0, len(m.Parts)+1)
	calls := 0
	for i, p := range m.Parts {
		switch p.Type {
		case chat.TypeText, chat.TypeReasoning:
			p.Text = strings.ToValidUTF8(p.Text, "\uFFFD")
			if p.Text == "" && len(p.ProviderOptions) == 0 {
				continue
			}
		case chat.TypeToolCall:
			calls++
			if p.ToolCallID == "" || ids[p.ToolCallID] {
				p.ToolCallID = unusedCallID(ids, r.step+1, i)
			}
			ids[p.ToolCallID] = true
			p = validateInput(p)
		}
		parts = append(parts, p)
	}
	switch last, note := len(parts)-1, stopNotes[stop]; {
	case calls > 0:
		if stop == llm.StopLength && parts[last].Type == chat.TypeToolCall && string(parts[last].Input) == "{}" {
			parts[last] = markInvalidInput(parts[last], truncatedInput)
		}
	case note != "" && strings.TrimSpace(m.Text()) != "":
		parts = append(parts, chat.TextPart(stepSeparator+note))
	}
	if m.IsString && len(parts) != 1 {
		m.IsString = false
	}
	m.Parts = parts
	return asStored(m)
}

func asStored(m chat.Message) chat.Message {
	var stored chat.Message
	data, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(data, &stored)
	}
	if err != nil {
		return m // recording it fails with the same error
	}
	return stored
}

func (r *run) callIDs() map[string]bool {
	ids := map[string]bool{}
	for _, m := range r.conv {
		for _, p := range m.ToolCalls() {
			ids[p.ToolCallID] = true
		}
	}
	return ids
}

func unusedCallID(taken map[string]bool, step, part int) string {
	id := fmt.Sprintf("call_%d_%d", step, part)
	for taken[id] {
		id += "x"
	}
	return id
}

// retry prepares the next attempt after a failed call, or returns an error for people.
func (r *run) retry(a answer) error {
	r.discardUsage(a.usage)
	if err := r.resetText(a); err != nil {
		return err
	}
	var f *fault.Error
	if !errors.As(a.err, &f) {
		f = fault.Wrap(fault.KindOf(a.err), a.err, "The model call failed for an unknown reason.")
	}
	if llm.IsSilent(f) {
		r.attempts.silence += a.silence
	}
	var delay time.Duration
	switch {
	case r.changesPrompt(f):
	case f.Code == llm.CodeContextLength:
		return tooLongError(f)
	case !f.Kind.Retryable():
		return f
	case f.RetryAfter > maxRetryAfter:
		return fault.Wrap(f.Kind, a.err, "%s The provider asks to wait %s.", f.Message, f.RetryAfter.Round(time.Second))
	default:
		var ok bool
		if delay, ok = r.attempts.next(f, r.cfg); !ok {
			return r.attempts.lastFailure(f, a.err)
		}
	}
	if err := r.recordFailure(a.err, delay); err != nil {
		return err
	}
	return r.wait(delay)
}

// wait returns after delay, or earlier after an interrupt or when the run stops.
func (r *run) wait(delay time.Duration) error {
	if delay <= 0 {
		return r.stopReason()
	}
	ctx, stop := r.interruptible()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.interrupted = stop()
	return r.stopReason()
}

// invalidInput is the provider option with which an adapter passes an input that is not
// a JSON object.
type invalidInput struct {
	Lilac struct {
		InvalidInput *string `json:"invalidInput,omitempty"`
	} `json:"lilac"`
}

// truncatedInput replaces the input of a call that the output limit cut off before its
// input started.
const truncatedInput = "(cut off by the output limit)"

// validateInput replaces an input that is not a JSON object, in case the adapter did not.
func validateInput(p chat.Part) chat.Part {
	if len(p.Input) == 0 {
		p.Input = json.RawMessage("{}")
		return p
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(p.Input, &object) == nil && object != nil {
		return p
	}
	return markInvalidInput(p, strings.ToValidUTF8(string(p.Input), "\uFFFD"))
}

func markInvalidInput(p chat.Part, text string) chat.Part {
	options := map[string]json.RawMessage{}
	if json.Unmarshal(p.ProviderOptions, &options) != nil || options == nil {
		options = map[string]json.RawMessage{}
	}
	options["lilac"], _ = json.Marshal(map[string]string{"invalidInput": text}) // strings always marshal
	p.ProviderOptions, _ = json.Marshal(options)
	p.Input = json.RawMessage("{}")
	return p
}

func inputError(p chat.Part) (text string, invalid bool) {
	var marked invalidInput
	if json.Unmarshal(p.ProviderOptions, &marked) != nil || marked.Lilac.InvalidInput == nil {
		return "", false
	}
	return *marked.Lilac.InvalidInput, true
}
