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
	// maxFruitless is how many interrupts in a row may bring no message before
	// the run stops listening for one call: a host that signals for ever must
	// not make it call the model for ever.
	maxFruitless = 3
)

// errInterrupted is the cause with which an interrupt stops a call.
var errInterrupted = errors.New("interrupted")

// Run does the work of one request and returns how it ended. It blocks, and it
// obeys ctx: with the cause [ErrCancelled] it keeps what was said and returns
// within a second, with any other cause it records nothing more and returns
// [ErrDrain]. When the outcome has no error the host has closed the run in
// WouldEnd; any other end is for the caller to record.
func Run(ctx context.Context, cfg Config, in Input, h Host) Outcome {
	r := newRun(ctx, cfg, in, h)
	release := r.openRecords()
	defer release()
	return r.outcome(r.run())
}

// run is the state of one Run. It belongs to the goroutine of Run; running
// tools share only what toolStep guards.
type run struct {
	ctx context.Context
	// rec is what recording methods get; see openRecords.
	rec   context.Context
	cfg   Config
	in    Input
	h     Host
	tools map[string]tool.Tool
	specs []llm.ToolSpec

	conv    []chat.Message
	text    string // of journaled steps
	offset  int64  // its length, also when the host did not pass Input.Text
	step    int    // journaled model calls
	usage   chat.Usage
	carried chat.Usage // of answers that were thrown away since the last step

	failures    int  // of the current step
	empties     int  // of the current step
	forced      bool // the current step was compacted because the model said so
	mustCompact bool
	guess       *fault.Error // the refusal that may mean that the prompt is too long
	unshown     bool         // pictures and documents are named only: the provider refused a prompt with them
	room        int          // what the model has not seen yet may take of the prompt, in tokens
	interrupted bool         // an interrupt stopped something and was not delivered yet
	fruitless   int          // interrupts in a row that delivered nothing
}

func newRun(ctx context.Context, cfg Config, in Input, h Host) *run {
	r := &run{
		ctx: ctx, cfg: cfg, in: in, h: h,
		tools: map[string]tool.Tool{},
		conv:  slices.Clone(in.Messages),
		text:  in.Text, offset: max(in.Offset, int64(len(in.Text))),
		step: in.Step, usage: in.Usage,
	}
	for _, t := range cfg.Tools {
		s := t.Spec()
		r.tools[s.Name] = t
		r.specs = append(r.specs, llm.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema})
	}
	return r
}

// openRecords makes the context of recording methods: it outlives a cancelled
// run by recordGrace and ends with a draining one.
func (r *run) openRecords() (release func()) {
	rec, cancel := context.WithCancelCause(context.WithoutCancel(r.ctx))
	r.rec = rec
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

// run returns nil when the host has closed the run.
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

// turn is one model call, if nothing forbids it, and what follows from it.
func (r *run) turn() (ended bool, err error) {
	if err := r.takeMessages(); err != nil {
		return false, err
	}
	if len(r.conv) == 0 {
		return false, fault.New(fault.Invalid, "There is no message to answer.")
	}
	if again, err := r.fit(); again || err != nil {
		return false, r.fitError(err)
	}
	a := r.ask()
	switch {
	case r.draining():
		return false, ErrDrain
	case a.whole && a.err != nil: // of the host
		return false, a.err
	case a.whole:
		return r.answered(a)
	case a.interrupted || r.ctx.Err() != nil:
		return false, r.keepPartial(a)
	}
	return false, r.retry(a)
}

// takeMessages delivers steers and interrupts. A signal that waits is for what
// the host delivers now.
func (r *run) takeMessages() error {
	if err := r.stopped(); err != nil {
		return err
	}
	if r.h.Interrupts().take() {
		r.interrupted = true
	}
	injected, err := r.h.BeforeModel(r.rec, r.step+1, r.usage)
	if err != nil {
		return r.hostError("take messages", err)
	}
	switch {
	case len(injected) > 0:
		r.fruitless = 0
	case r.interrupted:
		r.fruitless++
	}
	r.interrupted = false
	r.inject(injected)
	return r.stopped()
}

func (r *run) inject(injected []Injected) {
	for _, i := range injected {
		r.conv = append(r.conv, i.Messages...)
	}
}

// answered goes on after a whole answer.
func (r *run) answered(a answer) (ended bool, err error) {
	if len(a.message.ToolCalls()) == 0 && strings.TrimSpace(a.message.Text()) == "" {
		return r.saidNothing(a)
	}
	if err := r.record(a, false); err != nil {
		return false, err
	}
	return r.completeStep(a.message, PendingStep{})
}

// saidNothing handles an answer with neither text nor tool calls: asked once
// more, then accepted if the model had only its tools' results to comment on.
func (r *run) saidNothing(a answer) (ended bool, err error) {
	r.waste(a.usage)
	if err := r.takeBack(a); err != nil {
		return false, err
	}
	var cause error
	switch a.stop {
	case llm.StopRefusal:
		return false, coded(fault.Denied, "refusal", "The model declined to answer this.")
	case llm.StopLength:
		cause = coded(fault.Invalid, "output_length", "The model used up its output limit before it said anything. Raise the limit or ask for less.")
	default:
		cause = coded(fault.Unavailable, "empty_answer", "The model gave an empty answer, twice. Ask again, or ask differently.")
	}
	if r.empties == 0 {
		r.empties++
		if err := r.h.ModelFailed(r.rec, r.step+1, cause, 0); err != nil {
			return false, r.hostError("record failed model call", err)
		}
		return false, nil
	}
	if a.stop != llm.StopLength && r.text != "" && r.conv[len(r.conv)-1].Role == chat.Tool {
		return r.wouldEnd()
	}
	return false, cause
}

func coded(kind fault.Kind, code, message string) error {
	return &fault.Error{Kind: kind, Code: code, Message: message}
}

// keepPartial records what had been said when the call was stopped.
func (r *run) keepPartial(a answer) error {
	r.interrupted = a.interrupted
	if saysNothing(a.message) && strings.TrimSpace(a.thoughts) == "" {
		if err := r.takeBack(a); err != nil {
			return err
		}
		return r.stopped()
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
	err := r.h.ModelDone(r.rec, Step{
		Number: r.step + 1, Message: a.message, Usage: a.usage.Add(r.carried), Stop: a.stop,
		Interrupted: interrupted, Offset: r.offset + int64(len(text)), ModelTime: a.took,
	})
	if err != nil {
		return r.hostError("record model answer", err)
	}
	r.step++
	r.text += text
	r.offset += int64(len(text))
	r.carried = chat.Usage{}
	r.failures, r.empties, r.forced, r.guess = 0, 0, false, nil
	return nil
}

// completeStep runs the open tool calls of a journaled answer, appends the step
// to the history, and asks for the end when no tools were called.
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
	if err := r.h.StepDone(r.rec, r.step, messages); err != nil {
		return false, r.hostError("append step", err)
	}
	r.conv = append(r.conv, messages...)
	if len(calls) > 0 || p.Interrupted {
		return false, r.stopped()
	}
	return r.wouldEnd()
}

func (r *run) wouldEnd() (ended bool, err error) {
	if err := r.stopped(); err != nil {
		return false, err
	}
	injected, err := r.h.WouldEnd(r.rec, r.outcome(nil))
	if err != nil {
		return false, r.hostError("end run", err)
	}
	r.inject(injected)
	return len(injected) == 0, nil
}

// waste counts what an answer used that no step will hold.
func (r *run) waste(u chat.Usage) {
	r.usage = r.usage.Add(u)
	r.carried = r.carried.Add(u)
}

// takeBack cuts the streamed text back to the journaled steps.
func (r *run) takeBack(a answer) error {
	if !a.streamed {
		return nil
	}
	if err := r.h.ResetText(r.rec, r.offset); err != nil {
		return r.hostError("take text back", err)
	}
	return nil
}

// stopped returns why the run must not go on, if it must not.
func (r *run) stopped() error {
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

// hostError ends the run: the host could not record. A record that failed
// because the run drains is no failure.
func (r *run) hostError(doing string, err error) error {
	if r.draining() {
		return ErrDrain
	}
	return fmt.Errorf("%s: %w", doing, err)
}
