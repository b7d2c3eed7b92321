package session

import (
	"slices"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// pauseRun pauses the active run until somebody answers.
func (d *decision) pauseRun(requestID string, p Pause, noSlot bool) {
	switch {
	case !d.isWorking(requestID):
	case d.Active.Phase == Closing:
		if p.Kind != AtLimit {
			d.emit(CloseStep{RequestID: requestID})
		}
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, nil)
		d.startNext(noSlot)
	default:
		d.Active.Pauses++
		p.Number = d.Active.Pauses
		d.Active.Paused = &p
		d.emit(PauseRun{RequestID: requestID})
	}
}

// mayAnswer reports whether the message may answer the open pause. Interfaces that
// set AnswersPause have checked that themselves. Events never answer approvals and
// questions.
func (d *decision) mayAnswer(m Message) bool {
	p := d.Active.Paused
	people := m.Grant.People()
	switch {
	case m.AnswersPause != 0:
		return p.Accepts(m.Answer)
	case p.Kind == ForApproval:
		return p.mayApprove(people)
	case p.Kind == ForReply && (m.Rule != "" || len(people) == 0):
		return false
	}
	return d.acceptsAnswerOf(m.Author)
}

// answer applies a message as the answer to the open pause: the request continues
// or ends. The answers to approvals and to the agent's questions become part of the
// conversation as the results of tools.
func (d *decision) answer(p PendingMessage, m Message) {
	id, pause := d.Active.RequestID, *d.Active.Paused
	d.Active.Paused = nil
	recorded := RecordAnswer{RequestID: id, Answer: m.Answer, Pause: pause, Reply: m.Reply, By: m.By}
	if pause.Kind != AtLimit {
		d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: event.Steer, Applied: true})
		d.emit(recorded)
		d.emit(ConfirmMessage{RequestID: id, MessageID: p.MessageID})
		d.settle(pause, m.Answer, m.Reply, m.By)
		d.resume()
		return
	}
	d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: event.Steer})
	d.emit(recorded)
	d.applyMessage(id, p, event.Steer)
	if m.Answer == Stop {
		d.end(ending{State: event.StateCancelled, Detail: pause.stoppedText()}, nil)
		d.startNext(m.NoSlot)
		return
	}
	d.raise(pause, m.Used)
	d.resume()
}

// settle notes the answer to an approval or a form for the calls that it concerns. For a
// tool, the journal has it.
func (d *decision) settle(p Pause, answer Answer, reply, by string) {
	if p.Form != nil {
		d.settleForm(*p.Form, answer, reply)
	}
	if p.Kind != ForApproval {
		return
	}
	if answer == Always && !d.isStanding(p.Call.Tool, p.Call.Rule) {
		d.Standing = append(d.Standing, Standing{Tool: p.Call.Tool, Rule: p.Call.Rule, By: by})
		d.Standing = d.Standing[max(0, len(d.Standing)-maxStanding):]
	}
	if i := d.Active.approvalIndex(p.Call.Tool, p.Call.Hash); p.Call.isCallable() && i >= 0 {
		d.Active.Approvals[i].Answer, d.Active.Approvals[i].By = answer, by
	}
}

// approvalNeeded notes a call of a running command. People are asked when the run reaches
// its next step.
func (d *decision) approvalNeeded(in ApprovalNeeded) {
	if !d.isActive(in.RequestID) || d.Active.approvalIndex(in.Call.Tool, in.Call.Hash) >= 0 {
		return
	}
	d.Active.Approvals = append(d.Active.Approvals, in.Call)
	if len(d.Active.Approvals) > maxApprovals { // the oldest one that was answered, or else the oldest
		i := max(0, slices.IndexFunc(d.Active.Approvals, func(c CallApproval) bool { return c.Answer != NoAnswer }))
		d.Active.Approvals = slices.Delete(d.Active.Approvals, i, i+1)
	}
	d.emit(WakeRun{RequestID: in.RequestID})
}

// raise grants the limit's full amount again, counted from the current
// consumption. That can be far beyond the limit, because other requests may have
// used the same budget during the pause.
func (d *decision) raise(p Pause, used int64) {
	if p.Day != "" && p.Day != d.RaisedDay {
		d.Raised = withoutPrefix(d.Raised, dayPrefix)
		d.RaisedDay = p.Day
	}
	if d.Raised == nil {
		d.Raised = map[Limit]int64{}
	}
	d.Raised[p.Limit] = max(p.Used, used)
}

// waits reports whether the request still waits for an answer to a pause.
func (d *decision) waits(requestID string, pause int) bool {
	return d.isActive(requestID) && d.Active.Paused != nil && d.Active.Paused.Number == pause
}

// dayOver continues a request that waits at the limit of a day that is over. The limits of
// the new day apply as usual.
func (d *decision) dayOver(in DayOver) {
	if !d.waits(in.RequestID, in.Pause) || d.Active.Paused.Day == "" {
		return
	}
	d.proceed(NewDay)
}

// expired ends a request at a limit that nobody raised. A call that nobody approved does
// not run, and the request continues.
func (d *decision) expired(in Expired) {
	if !d.waits(in.RequestID, in.Pause) {
		return
	}
	if d.Active.Paused.Kind != AtLimit {
		d.settle(*d.Active.Paused, TimedOut, "", "")
		d.proceed(TimedOut)
		return
	}
	detail := d.Active.Paused.expiredText()
	d.end(ending{event.StateFailed, detail, fault.LimitReached}, nil)
	d.startNext(in.NoSlot)
}

// proceed continues a paused request without a person's answer.
func (d *decision) proceed(answer Answer) {
	pause := *d.Active.Paused
	d.Active.Paused = nil
	d.emit(RecordAnswer{RequestID: d.Active.RequestID, Answer: answer, Pause: pause})
	d.resume()
}
