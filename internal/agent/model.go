package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

const (
	// maxBackoff bounds the built-in backoff between repeated model calls.
	maxBackoff = 30 * time.Second
	// maxRetryAfter is the longest wait a provider may ask for; a person who
	// waits for an answer is better told.
	maxRetryAfter = 10 * time.Minute

	goOn = "Go on from where you stopped."
)

// stopNotes tell people of an answer that is not all of it.
var stopNotes = map[llm.StopReason]string{
	llm.StopLength:  "(The answer stops here: it reached the model's output limit.)",
	llm.StopRefusal: "(The answer stops here: the model declined to go on.)",
}

// answer is what came of one model call.
type answer struct {
	// message is the whole answer, or the text and thoughts that came before
	// the call failed or was stopped.
	message  chat.Message
	thoughts string
	usage    chat.Usage
	stop     llm.StopReason
	took     time.Duration
	err      error
	// whole says that the model finished, streamed that something was shown,
	// interrupted that an interrupt came during the call.
	whole, streamed, interrupted bool
}

// ask makes one model call and streams it.
func (r *run) ask() answer {
	ctx, stop := r.interruptible()
	prompt := r.prompt()
	req := llm.Request{
		System: r.cfg.System, Messages: prompt, Tools: r.specs,
		MaxOutputTokens: r.outputLimit(prompt),
		Session:         r.in.SessionID,
	}
	begun := time.Now()
	s := &speech{run: r}
	var a answer
	for c, err := range r.cfg.Model.Stream(ctx, req) {
		if err != nil {
			a.err = err
			break
		}
		if c.Kind == llm.ChunkDone {
			a.whole, a.message, a.usage, a.stop = true, c.Message, c.Usage, c.Stop
			break
		}
		s.hear(c)
		if ctx.Err() != nil {
			break
		}
	}
	a.interrupted = stop()
	a.took = time.Since(begun)
	a.streamed = s.streamed
	a.thoughts = s.said(chat.TypeReasoning)
	if !a.whole {
		if a.err == nil {
			a.err = fault.New(fault.Unavailable, "The model's answer broke off.")
		}
		a.message = s.partial()
		a.stop = llm.StopOther
		if s.streamed {
			a.usage = r.estimateUsage(req, a.message)
		}
		return a
	}
	a.usage = r.used(a.usage, req, a.message)
	a.message = r.tidy(a.message, a.stop)
	a.err = s.settle(a.message.Text())
	a.streamed = s.streamed
	r.interrupted = a.interrupted
	return a
}

// prompt is the conversation as the model gets it. A provider takes an
// assistant message at the end as one to be continued, or refuses it.
func (r *run) prompt() []chat.Message {
	messages := Repair(r.conv)
	if r.unshown {
		messages = withoutMedia(messages)
	}
	messages = shortenResults(messages, unseenFrom(messages, r.room), r.room)
	if n := len(messages); n == 0 || messages[n-1].Role == chat.Assistant {
		messages = append(messages, chat.Text(chat.User, goOn))
	}
	return messages
}

// interruptible returns a context that an interrupt cancels. stop ends the
// watch and says whether there was an interrupt.
func (r *run) interruptible() (ctx context.Context, stop func() bool) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	if r.fruitless >= maxFruitless {
		return ctx, func() bool { cancel(nil); return false }
	}
	unwatch := r.h.Interrupts().watch(func() { cancel(errInterrupted) })
	return ctx, func() bool {
		hit := unwatch()
		cancel(nil)
		return hit
	}
}

// speech is what a model says during a call, as it is streamed.
type speech struct {
	run      *run
	parts    []heard
	streamed bool
	// spoken says that there was text.
	spoken bool
}

// heard is a part on its way. Deltas are gathered as bytes, and once: adding
// each to a string would copy the whole answer for every token, and thousands
// of answers may be on their way.
type heard struct {
	kind chat.PartType
	text []byte
}

func (s *speech) hear(c llm.Chunk) {
	delta := strings.ToValidUTF8(c.Text, "\uFFFD")
	if delta == "" {
		return
	}
	switch c.Kind {
	case llm.ChunkText:
		s.keep(chat.TypeText, delta)
		s.say(delta)
	case llm.ChunkReasoning:
		s.streamed = true
		s.keep(chat.TypeReasoning, delta)
		s.run.h.Reasoning(delta)
	}
}

func (s *speech) say(delta string) {
	if !s.spoken && s.run.offset > 0 {
		delta = stepSeparator + delta
	}
	s.streamed, s.spoken = true, true
	s.run.h.Text(delta)
}

func (s *speech) keep(kind chat.PartType, delta string) {
	if n := len(s.parts); n > 0 && s.parts[n-1].kind == kind {
		s.parts[n-1].text = append(s.parts[n-1].text, delta...)
		return
	}
	s.parts = append(s.parts, heard{kind: kind, text: []byte(delta)})
}

// settle makes what was streamed equal to the text of the finished message.
func (s *speech) settle(final string) error {
	rest, ok := strings.CutPrefix(final, s.said(chat.TypeText))
	if !ok {
		if err := s.run.h.ResetText(s.run.rec, s.run.offset); err != nil {
			return s.run.hostError("take text back", err)
		}
		s.spoken, rest = false, final
	}
	if rest != "" {
		s.say(rest)
	}
	return nil
}

// said is all that was streamed of a kind.
func (s *speech) said(kind chat.PartType) string {
	var all []byte
	for _, h := range s.parts {
		if h.kind == kind {
			all = append(all, h.text...)
		}
	}
	return string(all)
}

func (s *speech) partial() chat.Message {
	var parts []chat.Part
	for _, h := range s.parts {
		parts = append(parts, chat.Part{Type: h.kind, Text: string(h.text)})
	}
	return chat.Message{Role: chat.Assistant, Parts: parts}
}

// tidy makes a finished message fit for the journal: valid text, tool calls
// with inputs that are objects and with ids that the conversation has not
// seen, and a note where the text was cut off.
func (r *run) tidy(m chat.Message, stop llm.StopReason) chat.Message {
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
				p.ToolCallID = freeID(ids, r.step+1, i)
			}
			ids[p.ToolCallID] = true
			p = checkedInput(p)
		}
		parts = append(parts, p)
	}
	switch last, note := len(parts)-1, stopNotes[stop]; {
	case calls > 0:
		if stop == llm.StopLength && parts[last].Type == chat.TypeToolCall && string(parts[last].Input) == "{}" {
			parts[last] = withInvalidInput(parts[last], invalidCut)
		}
	case note != "" && strings.TrimSpace(m.Text()) != "":
		parts = append(parts, chat.TextPart(stepSeparator+note))
	}
	if m.IsString && len(parts) != 1 {
		m.IsString = false
	}
	m.Parts = parts
	return m
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

func freeID(taken map[string]bool, step, part int) string {
	id := fmt.Sprintf("call_%d_%d", step, part)
	for taken[id] {
		id += "x"
	}
	return id
}

// used is what a finished call used: as reported, or an estimate where nothing
// was, so that limits bind whatever the provider.
func (r *run) used(reported chat.Usage, req llm.Request, said chat.Message) chat.Usage {
	if reported == (chat.Usage{}) {
		return r.estimateUsage(req, said)
	}
	return r.priced(reported)
}

// priced fills in the cost unless the adapter did.
func (r *run) priced(u chat.Usage) chat.Usage {
	if u.CostMicros == 0 {
		u.CostMicros = r.cfg.Model.Info().Price.Cost(u)
	}
	return u
}

// estimateUsage stands in for the usage of a call that nobody reported.
func (r *run) estimateUsage(req llm.Request, said chat.Message) chat.Usage {
	return r.priced(chat.Usage{
		InputTokens:  int64(overheadTokens(req.System, req.Tools) + EstimateTokens(req.Messages)),
		OutputTokens: int64(EstimateTokens([]chat.Message{said})),
	})
}

// retry prepares the next attempt after a failed call, or gives up with a
// sentence for a person.
func (r *run) retry(a answer) error {
	r.waste(a.usage)
	if err := r.takeBack(a); err != nil {
		return err
	}
	var f *fault.Error
	if !errors.As(a.err, &f) {
		f = fault.Wrap(fault.KindOf(a.err), a.err, "The call of the model failed in a way that Lilac does not know.")
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
	case r.failures >= r.cfg.Retries || f.Code == llm.CodeSilent && r.failures >= maxSilentRetries:
		if r.failures == 0 {
			return f
		}
		return fault.Wrap(f.Kind, a.err, "%s It was tried %d times.", f.Message, r.failures+1)
	default:
		delay = max(r.backoff(r.failures), f.RetryAfter)
		r.failures++
	}
	if err := r.h.ModelFailed(r.rec, r.step+1, a.err, delay); err != nil {
		return r.hostError("record failed model call", err)
	}
	return r.wait(delay)
}

func (r *run) backoff(retry int) time.Duration {
	if r.cfg.Backoff != nil {
		return r.cfg.Backoff(retry)
	}
	return min(maxBackoff, time.Second<<min(retry, 5))
}

// wait returns after delay or an interrupt, or with the reason the run stops.
func (r *run) wait(delay time.Duration) error {
	if delay <= 0 {
		return r.stopped()
	}
	ctx, stop := r.interruptible()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	r.interrupted = stop()
	return r.stopped()
}

// invalidInput is how an adapter hands over an input that is no JSON object.
type invalidInput struct {
	Lilac struct {
		InvalidInput *string `json:"invalidInput,omitempty"`
	} `json:"lilac"`
}

// invalidCut stands for the input of a call that the output limit cut off before it began.
const invalidCut = "(cut off by the output limit)"

// checkedInput replaces an input that is no JSON object, as an adapter should have.
func checkedInput(p chat.Part) chat.Part {
	if len(p.Input) == 0 {
		p.Input = json.RawMessage("{}")
		return p
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(p.Input, &object) == nil && object != nil {
		return p
	}
	return withInvalidInput(p, strings.ToValidUTF8(string(p.Input), "\uFFFD"))
}

func withInvalidInput(p chat.Part, text string) chat.Part {
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
