package session

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/text"
)

const (
	// maxPreview is the maximum length of a tool's output on the topic, in bytes.
	maxPreview = 4 << 10
	// maxArgs is the maximum length of a call's arguments on the topic, in bytes.
	maxArgs = 16 << 10
)

// runHost is a run as the host of the agent.
type runHost struct{ *run }

// host returns the run as the host of the agent.
func (r *run) host() agent.Host {
	h := runHost{r}
	return agent.Host{Inbox: h, Output: h, Recorder: h}
}

// BeforeModel implements [agent.Inbox]. Unless the wake flag is set, it reads nothing: a
// message that is committed later comes before the next model call.
func (r runHost) BeforeModel(ctx context.Context, step int, used chat.Usage) ([]agent.Injected, error) {
	r.steps = int64(step - 1)
	if err := r.CheckLimits(ctx, used); err != nil {
		return nil, err
	}
	refusal, err := r.svc.opt.Policy.Admit(ctx, r.requestID, r.sessionID, used.Beyond(r.chargedUsage))
	if err != nil {
		return nil, fmt.Errorf("check whether the request may continue: %w", err)
	}
	if r.refusal = refusal; refusal != nil {
		return nil, fault.New(fault.LimitReached, "%s", refusal.Reason)
	}
	if !r.wake.Swap(false) {
		return nil, nil
	}
	injected, err := r.takeMessages(ctx, StepBoundary{RequestID: r.requestID}, nil)
	if err == nil && r.asks != nil {
		return nil, agent.ErrAsk
	}
	return injected, err
}

// CheckLimits implements [agent.Host]. The fields that it reads do not change during a
// model call.
func (r runHost) CheckLimits(ctx context.Context, used chat.Usage) error {
	return r.checkBudgets(ctx, r.steps, used)
}

func (r runHost) takeMessages(ctx context.Context, in Input, outcome *agent.Outcome, long ...any) ([]agent.Injected, error) {
	var injected []agent.Injected
	var seqs []int64
	var closed bool
	var granted grant.Grant
	var unasked *CallApproval
	var form *CallForm
	err := r.record(ctx, func(c *change) error {
		c.outcome = outcome
		err := c.decide(in)
		injected, seqs, closed, granted = c.injected, c.seqs, !c.state.isActive(r.requestID), c.granted
		if unasked = c.state.Active.firstUnasked(); unasked != nil {
			asked := *unasked
			unasked = &asked
		} else if open := c.state.Active.firstOpenForm(); open != nil {
			asked := *open
			form = &asked
		}
		return err
	}, long...)
	if err != nil {
		return nil, err
	}
	if closed {
		r.closed = true
		return nil, nil
	}
	switch {
	case unasked != nil:
		r.asks = pauses{r.svc}.forApproval(unasked.AskedCall, unasked.Approvers)
	case form != nil:
		r.asks = pauses{r.svc}.forForm(*form)
	}
	r.grant = r.grant.And(granted)
	return r.inject(injected, seqs), nil
}

// Interrupts implements [agent.Inbox].
func (r runHost) Interrupts() *agent.Signal { return &r.interrupts }

// Text implements [agent.Output].
func (r runHost) Text(delta string) {
	r.out.stream(r.ctx, false, delta)
}

// Reasoning implements [agent.Output].
func (r runHost) Reasoning(delta string) {
	r.out.stream(r.ctx, true, delta)
}

// ResetText implements [agent.Output].
func (r runHost) ResetText(ctx context.Context, offset int64) error {
	id := r.out.eventID()
	err := r.record(ctx, func(c *change) error {
		return c.publish(id, r.headers(), event.TextReset{Offset: offset})
	})
	if err == nil {
		r.out.truncate(offset)
	}
	return err
}

// ModelFailed implements [agent.Recorder].
func (r runHost) ModelFailed(ctx context.Context, step int, cause error, used chat.Usage, delay time.Duration) error {
	spent := Spent{Usage: used, Time: r.unchargedTime()}
	err := r.record(ctx, func(c *change) error {
		if err := c.charge(r.requestID, spent); err != nil {
			return err
		}
		return c.tables.Journal.Record(c.tx, r.requestID, Entry{
			At: c.now(), Step: step, Kind: kindModelFailed,
			Data: failedEntry{Error: fault.ToWire(cause).Message, DelayMS: delay.Milliseconds(), WorkedMS: r.workedMS()},
		})
	})
	if err == nil {
		r.markCharged(spent)
	}
	return err
}

// charge adds consumption to the request, its session and the day.
func (c *change) charge(requestID string, spent Spent) error {
	req, err := c.request(requestID)
	if err != nil {
		return err
	}
	req.Usage = req.Usage.Add(spent.Usage)
	c.updateRequest(req)
	return c.svc.Spend(c.tx, c.sessionID, spent)
}

// ModelDone implements [agent.Recorder].
func (r runHost) ModelDone(ctx context.Context, s agent.Step) error {
	spent := Spent{Steps: 1, Usage: s.Usage, Time: r.unchargedTime()}
	prompt, changed := r.promptAfter(s)
	instructions := ""
	if s.Number == 1 {
		instructions = text.TruncateRunes(r.instructions, maxRecordedInstructions)
	}
	err := r.record(ctx, func(c *change) error {
		req, err := c.request(r.requestID)
		if err != nil {
			return err
		}
		req.Steps, req.Usage, req.Model = s.Number, req.Usage.Add(s.Usage), r.model
		c.updateRequest(req)
		if err := c.svc.Spend(c.tx, c.sessionID, spent); err != nil {
			return err
		}
		if changed {
			if err := r.writePrompt(c.tx, prompt, r.sent.prefix); err != nil {
				return err
			}
		}
		if a := c.state.Active; a != nil && a.Recovery != (Recovery{}) {
			if err := c.decide(Progressed{RequestID: r.requestID}); err != nil {
				return err
			}
		}
		return c.tables.Journal.Record(c.tx, r.requestID, Entry{At: c.now(), Step: s.Number, Kind: kindModel, Data: modelEntry{
			Message: s.Message, Usage: s.Usage, Stop: string(s.Stop), Interrupted: s.Interrupted,
			Offset: s.Offset, ModelMS: s.ModelTime.Milliseconds(), Model: r.model, Effort: r.effort, WorkedMS: r.workedMS(),
			Instructions: instructions,
		}})
	}, s.Message)
	if err == nil {
		r.markCharged(spent)
		r.sent.Prompt, r.sent.unsaved = prompt, false
		r.proveOnce()
		clear(r.reportedCalls)
	}
	return err
}

// proveOnce ends the trial of the run, if it is on trial.
func (r *run) proveOnce() {
	select {
	case <-r.proven:
	default:
		close(r.proven)
	}
}

// ToolStarted implements [agent.Recorder].
func (r runHost) ToolStarted(ctx context.Context, step int, call chat.Part, display string) error {
	id := r.out.eventID()
	started := event.ToolCallOutput{ToolCallID: call.ToolCallID, Status: event.ToolStart, Display: display, Name: call.ToolName, Args: displayArgs(call)}
	return r.record(ctx, func(c *change) error {
		err := c.tables.Journal.Record(c.tx, r.requestID, Entry{
			At: c.now(), Step: step, Kind: kindToolStart,
			Data: toolEntry{ToolCallID: call.ToolCallID, Name: call.ToolName, Args: call.Input, Display: display, WorkedMS: r.workedMS()},
		})
		if err != nil {
			return err
		}
		return c.publish(id, r.headers(), started)
	})
}

// ToolProgress implements [agent.Output].
func (r runHost) ToolProgress(call chat.Part, line string) {
	r.out.setProgress(event.ToolCallOutput{ToolCallID: call.ToolCallID, Status: event.ToolUpdate, Display: preview(line), Name: call.ToolName})
}

// ToolEnded implements [agent.Recorder].
func (r runHost) ToolEnded(ctx context.Context, step int, call, result chat.Part, display string) error {
	id := r.out.eventID()
	r.out.clearProgress(call.ToolCallID)
	ended := toolEndEvent(call, result, display)
	err := r.record(ctx, func(c *change) error {
		err := c.tables.Journal.Record(c.tx, r.requestID, Entry{
			At: c.now(), Step: step, Kind: kindToolEnd,
			Data: toolEntry{ToolCallID: call.ToolCallID, Name: call.ToolName, Display: display, Result: &result, OK: ended.OK, WorkedMS: r.workedMS()},
		})
		if err != nil {
			return err
		}
		if err := c.publish(id, r.headers(), ended); err != nil {
			return err
		}
		return c.announceTool(r.requestID, ended)
	})
	if err == nil {
		r.reportedCalls[call.ToolCallID] = true
	}
	return err
}

// StepDone implements [agent.Recorder].
func (r runHost) StepDone(ctx context.Context, step int, messages []chat.Message) error {
	var seqs []int64
	err := r.record(ctx, func(c *change) (err error) {
		seqs, err = c.appendStep(r.headers(), step, messages, func(id string) bool { return r.reportedCalls[id] })
		return err
	})
	r.addSlots(seqs)
	return err
}

// WouldEnd implements [agent.Inbox].
func (r runHost) WouldEnd(ctx context.Context, outcome agent.Outcome) ([]agent.Injected, error) {
	return r.takeMessages(ctx, WouldEnd{RequestID: r.requestID, NoSlot: r.svc.hasHeldSessions()}, &outcome, r.out.fullText())
}

// Compacted implements [agent.Recorder].
func (r runHost) Compacted(ctx context.Context, summary chat.Message, keep int) error {
	if keep < 1 || keep > len(r.slots) {
		return fault.New(fault.Internal, "a compaction keeps messages from %d of %d", keep, len(r.slots))
	}
	from := r.slots[len(r.slots)-1].seq + 1
	if keep < len(r.slots) {
		from = r.slots[keep].seq
	}
	next := r.compactedPrompt(keep, from)
	err := r.record(ctx, func(c *change) error {
		err := c.tables.History.AddCompaction(c.tx, Compaction{SessionID: r.sessionID, RequestID: r.requestID, Summary: summary, KeptFrom: from, CreatedAt: c.now()})
		if err != nil {
			return err
		}
		if err := r.writePrompt(c.tx, next, r.sent.nextPrefix); err != nil {
			return err
		}
		return c.tables.Journal.Record(c.tx, r.requestID, Entry{At: c.now(), Kind: kindCompacted, Data: compactedEntry{KeptFrom: from}})
	})
	if err == nil {
		r.slots = append([]slot{{seq: from - 1}}, r.slots[keep:]...)
		r.sent.Prompt, r.sent.prefix, r.sent.unsaved = next, r.sent.nextPrefix, false
	}
	return err
}
