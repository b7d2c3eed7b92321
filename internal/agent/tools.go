package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
)

const (
	// maxParallel is how many tools of a step run at the same time.
	maxParallel = 8
	// maxCalls is how many tool calls of a step run. The others get an error as their
	// result.
	maxCalls = 128
	// toolGrace is how long a tool may take to return after the end of its context;
	// then the run continues without it.
	toolGrace = 500 * time.Millisecond
	// maxResultBytes is the maximum length of a result, for tools that do not limit it
	// themselves.
	maxResultBytes = 256 << 10
	// maxEchoBytes is how much of an invalid input the model gets back.
	maxEchoBytes = 500

	restartedResult   = "The process was restarted while this ran. Its outcome is unknown: check before repeating."
	interruptedResult = "stopped by the user; its outcome is unknown"
	cancelledResult   = "cancelled; its outcome is unknown"
	notRunResult      = "not run: the user stopped this step before it started"
)

// toolStep runs the calls of one step.
type toolStep struct {
	run   *run
	ctx   context.Context // also ends with an interrupt
	calls []chat.Part
	// asks reports that a person has to answer before the next call; no further call
	// starts, but those that run are recorded. The run's goroutine owns it.
	asks bool

	// mu serialises calls of the host and guards the fields below.
	mu      sync.Mutex
	results []chat.Part
	err     error // an error of the host; no further call starts
}

// runTools returns one result for each call, in their order. Calls with a result in p
// keep it.
func (r *run) runTools(calls []chat.Part, p PendingStep) ([]chat.Part, error) {
	ctx, stop := r.interruptible()
	if r.interrupted { // the interrupt came when the model had just finished
		stop()
		stopped, cancel := context.WithCancelCause(r.ctx)
		cancel(errInterrupted)
		ctx, stop = stopped, func() bool { return true }
	}
	s := &toolStep{run: r, ctx: ctx, calls: calls, results: make([]chat.Part, len(calls))}
	for i := 0; i < len(calls) && !s.asks; {
		end := i + 1
		for s.parallel(i) && end < len(calls) && s.parallel(end) {
			end++
		}
		s.batch(i, end, p)
		i = end
	}
	stopped := ctx.Err() != nil
	r.interrupted = stop()
	switch {
	case r.draining():
		return nil, ErrDrain
	case s.err != nil:
		return nil, s.err
	case s.asks && !stopped:
		return nil, ErrAsk
	case s.asks: // it was stopped before somebody was asked
		for i, c := range calls {
			if s.results[i].ToolCallID == "" {
				s.results[i] = chat.ToolResult(c.ToolCallID, c.ToolName, notRunResult, true)
			}
		}
	}
	return s.results, nil
}

func (s *toolStep) parallel(i int) bool {
	t, ok := s.run.tools[s.calls[i].ToolName]
	return ok && t.Spec().ParallelSafe
}

// batch runs the calls from begin to end (exclusive) in parallel. They start in their
// order, so a stop keeps only the last ones from starting.
func (s *toolStep) batch(begin, end int, p PendingStep) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for i := begin; i < end; i++ {
		slots <- struct{}{}
		call := s.prepare(i, p)
		if call == nil { // a person has to answer first
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.results[i] = call()
		})
	}
	wg.Wait()
}

// prepare starts a call and returns a function that completes it and returns its result. It
// returns nil if a person has to answer before the call.
func (s *toolStep) prepare(i int, p PendingStep) func() chat.Part {
	c := s.calls[i]
	is := func(result chat.Part) func() chat.Part { return func() chat.Part { return result } }
	if known, ok := p.Results[c.ToolCallID]; ok {
		return is(known)
	}
	t, known := s.run.tools[c.ToolName]
	display := displayLine(t, c)
	if p.Started[c.ToolCallID] && (!known || !t.Spec().Idempotent || s.ctx.Err() != nil) {
		return is(s.recordEnd(c, restartedResult, true, display))
	}
	notRun := is(chat.ToolResult(c.ToolCallID, c.ToolName, notRunResult, true))
	if s.ctx.Err() != nil {
		return notRun
	}
	permit, refusal := Permit{}, s.refusalReason(i, known)
	if refusal == "" {
		ok := false
		if permit, ok = s.permit(c); !ok {
			return notRun
		}
		refusal = permit.Refusal
	}
	started := p.Started[c.ToolCallID]
	switch {
	case started && (permit.Once || permit.Ask):
		return is(s.recordEnd(c, restartedResult, true, display))
	case permit.Ask:
		s.asks = true
		return nil
	case !s.recordStart(c, display):
		return notRun
	case refusal != "":
		return is(s.recordEnd(c, refusal, true, display))
	case permit.Answer != "":
		return is(s.recordEnd(c, permit.Answer, false, display))
	}
	return func() chat.Part {
		res := s.execute(t, c, permit.Grant)
		if len(res.Pictures) > 0 && !res.Failed {
			return s.recordResult(c, chat.MediaResult(c.ToolCallID, c.ToolName, truncate(res.Text, maxResultBytes), res.Pictures[:min(len(res.Pictures), maxPictures)]), cmp.Or(res.Display, display))
		}
		return s.recordEnd(c, res.Text, res.Failed, cmp.Or(res.Display, display))
	}
}

// maxPictures bounds the pictures of one result.
const maxPictures = 8

// permit asks the host whether the call may run; false means that the host failed.
func (s *toolStep) permit(c chat.Part) (Permit, bool) {
	if s.run.cfg.Permit == nil {
		return Permit{}, true
	}
	p, err := s.run.cfg.Permit(s.run.recordCtx, c)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = s.run.hostError("check permission", err)
		}
	}
	return p, err == nil
}

// recordStart records that the call is about to run; false means that it must not.
func (s *toolStep) recordStart(c chat.Part, display string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.run.draining() {
		return false
	}
	if err := s.run.host.ToolStarted(s.run.recordCtx, s.run.step, c, display); err != nil {
		s.err = s.run.hostError("record tool start", err)
		return false
	}
	return true
}

func (s *toolStep) recordEnd(c chat.Part, text string, failed bool, display string) chat.Part {
	return s.recordResult(c, chat.ToolResult(c.ToolCallID, c.ToolName, truncate(text, maxResultBytes), failed), display)
}

func (s *toolStep) recordResult(c, result chat.Part, display string) chat.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.run.draining() {
		return result
	}
	if err := s.run.host.ToolEnded(s.run.recordCtx, s.run.step, c, result, display); err != nil {
		s.err = s.run.hostError("record tool end", err)
	}
	return result
}

// refusalReason returns the reason why the call cannot run, or "".
func (s *toolStep) refusalReason(i int, known bool) string {
	c := s.calls[i]
	if i >= maxCalls {
		return fmt.Sprintf("Not run: of the tools that one answer calls only the first %d run. Call it again if it is still needed.", maxCalls)
	}
	if !known {
		names := make([]string, len(s.run.specs))
		for i, t := range s.run.specs {
			names[i] = t.Name
		}
		return fmt.Sprintf("There is no tool %q. The tools are: %s.", c.ToolName, strings.Join(names, ", "))
	}
	switch text, invalid := inputError(c); {
	case invalid && text == truncatedInput:
		return "Not run: your answer reached the output limit before this call was complete. Make it smaller, or do it in several calls."
	case invalid:
		return fmt.Sprintf("Not run: the input is not a complete JSON object (or was cut off by the output limit). You sent: %s", truncate(text, maxEchoBytes))
	}
	return ""
}

type toolOutcome struct {
	res   tool.Result
	err   error
	panic any
}

// execute runs the tool under its limits. It abandons a tool that ignores the end of its
// context for toolGrace.
func (s *toolStep) execute(t tool.Tool, c chat.Part, g grant.Grant) tool.Result {
	ctx, cancel := s.ctx, context.CancelFunc(func() {})
	if d := s.run.cfg.ToolTimeout; d > 0 {
		ctx, cancel = context.WithTimeout(s.ctx, d)
	}
	defer cancel()
	open := true // guarded by mu: later progress is dropped
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		open = false
	}()
	call := tool.Call{
		ID: c.ToolCallID, Input: c.Input,
		RequestID: s.run.in.RequestID, SessionID: s.run.in.SessionID, Client: s.run.in.Client,
		Workspace: s.run.cfg.Workspace, Grant: g,
		Progress: func(line string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if open && s.err == nil && !s.run.draining() {
				s.run.host.ToolProgress(c, line)
			}
		},
	}
	if prepare := s.run.cfg.Prepare; prepare != nil {
		if err := prepare(); err != nil {
			return s.resultOf(ctx, toolOutcome{err: err})
		}
	}
	ended := make(chan toolOutcome, 1) // so that an abandoned tool can end
	go func() {
		var e toolOutcome
		defer func() {
			e.panic = recover()
			ended <- e
		}()
		e.res, e.err = t.Run(ctx, call)
	}()
	select {
	case e := <-ended:
		result := s.resultOf(ctx, e)
		if !result.Failed {
			result.Text += s.run.guides.beside(call.Workspace, c)
		}
		return result
	case <-ctx.Done():
	}
	grace := time.NewTimer(toolGrace)
	defer grace.Stop()
	select {
	case e := <-ended:
		return s.resultOf(ctx, e)
	case <-grace.C:
		return s.resultOf(ctx, toolOutcome{err: ctx.Err()})
	}
}

// resultOf returns the result for the model. A call that finished although it was being
// stopped keeps its result.
func (s *toolStep) resultOf(ctx context.Context, e toolOutcome) tool.Result {
	finished := e.panic == nil && e.err == nil && !e.res.Failed
	reason := ""
	switch {
	case finished:
		return e.res
	case errors.Is(context.Cause(s.ctx), errInterrupted):
		reason = interruptedResult
	case s.ctx.Err() != nil:
		reason = cancelledResult
	case e.panic != nil:
		reason = fmt.Sprintf("The tool crashed: %v", e.panic)
	case ctx.Err() != nil:
		reason = fmt.Sprintf("The tool was stopped after %s, its time limit.", s.run.cfg.ToolTimeout)
	case e.err != nil:
		reason = "The tool failed: " + e.err.Error()
	default:
		return e.res
	}
	if e.res.Text != "" {
		reason += "\n\n" + e.res.Text
	}
	return tool.Result{Text: reason, Failed: true, Display: e.res.Display}
}

// Display returns the line for people about a call of one of the tools.
func Display(tools []tool.Tool, c chat.Part) string {
	for _, t := range tools {
		if t.Spec().Name == c.ToolName {
			return displayLine(t, c)
		}
	}
	return c.ToolName
}

// displayLine returns the line for people about a call.
func displayLine(t tool.Tool, c chat.Part) (line string) {
	defer func() {
		if recover() != nil || line == "" {
			line = c.ToolName
		}
	}()
	if d, ok := t.(tool.Displayer); ok {
		if _, invalid := inputError(c); !invalid {
			return d.Display(c.Input)
		}
	}
	return c.ToolName
}

// truncate cuts text to at most n bytes of valid UTF-8 and marks the cut.
func truncate(text string, n int) string {
	if len(text) > n {
		text = text[:n] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
