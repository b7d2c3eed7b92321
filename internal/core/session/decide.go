package session

import (
	"fmt"
	"slices"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Texts that people read.
const (
	gaveUpText         = "The program stopped several times in the middle of this request, so it was given up. Ask again."
	tooManyWaitingText = "Too many messages are waiting in this conversation, so this one was rejected. Send it again when they are answered."
	cancelledText      = "Cancelled."
)

// Decide returns the next state of a session and the effects of an input. It is
// pure: it modifies neither argument and does no I/O. It needs no time, because
// every deadline is part of an input.
func Decide(s State, in Input, _ time.Time) (State, []Effect) {
	d := decision{State: s.clone()}
	d.decide(in)
	return d.State, d.effects
}

// decision is the state on its way to the next one, with the effects so far.
type decision struct {
	State
	effects []Effect
}

func (d *decision) emit(e Effect) { d.effects = append(d.effects, e) }

func (d *decision) decide(in Input) {
	switch in := in.(type) {
	case Message:
		d.message(in)
	case Cancel:
		d.cancel(in)
	case StepBoundary:
		d.applyPending(in.RequestID, event.Steer, event.Interrupt)
	case WouldEnd:
		d.wouldEnd(in)
	case Ended:
		d.ended(in)
	case LimitReached:
		d.pauseRun(in.RequestID, in.Pause, in.NoSlot)
	case Asked:
		d.pauseRun(in.RequestID, in.Pause, in.NoSlot)
	case ApprovalNeeded:
		d.approvalNeeded(in)
	case ApprovalUsed:
		if d.isActive(in.RequestID) {
			if i := d.Active.approvalIndex(in.Tool, in.Hash); i >= 0 {
				d.Active.Approvals = slices.Delete(d.Active.Approvals, i, i+1)
			}
		}
	case FormNeeded:
		d.formNeeded(in)
	case FormsUsed:
		d.formsUsed(in)
	case StandingRevoked:
		d.Standing = slices.DeleteFunc(d.Standing, func(s Standing) bool { return in.Tool == "" || s.Tool == in.Tool })
	case Expired:
		d.expired(in)
	case DayOver:
		d.dayOver(in)
	case Drained:
		if d.isActive(in.RequestID) {
			d.Active.Drained = true
		}
	case Recovered:
		d.recovered(in)
	case TurnCame:
		d.turnCame(in)
	case TrialPassed:
		if d.isActive(in.RequestID) && d.Active.Recovery.Turn == OnTrial {
			d.Active.Recovery.Turn = AtOnce
		}
	case Progressed:
		if d.isActive(in.RequestID) {
			d.Active.Recovery = Recovery{}
		}
	case SlotFree:
		d.startNext(false)
	case RowDamaged:
		d.rowDamaged(in)
	case DamagedQueue:
		for _, row := range in.Rows {
			d.rowDamaged(row)
		}
		d.decide(in.Next)
	}
}

func (d *decision) rowDamaged(in RowDamaged) {
	if at := d.queueIndex(in.RequestID); at >= 0 {
		d.endQueued(at, at+1, ending{event.StateFailed, in.Detail, in.Kind})
	}
}

func (d *decision) ended(in Ended) {
	if !d.isWorking(in.RequestID) && !(in.Unstarted && d.isActive(in.RequestID)) {
		return
	}
	for _, id := range in.Drop {
		if at := d.queueIndex(id); at >= 0 {
			d.endQueued(at, at+1, cancelled(in.DropReason))
		}
	}
	d.end(ending{in.State, in.Detail, in.Kind}, nil)
	d.startNext(in.NoSlot)
}

func (d *decision) message(m Message) {
	if m.Duplicate || slices.Contains(d.Seen, m.MessageID) {
		d.emit(IgnoreCommand{RequestID: m.RequestID, MessageID: m.MessageID})
		return
	}
	d.Seen = appendBounded(d.Seen, m.MessageID, maxSeen)
	p := PendingMessage{MessageID: m.MessageID, Queue: m.Queue, Client: m.Client, ElseRequestID: m.ElseRequestID, Author: m.Author, Grant: m.Grant, Agent: m.Agent, Rule: m.Rule}
	if p.ElseRequestID == "" {
		p.ElseRequestID = event.ElseRequest(m.RequestID, m.MessageID)
	}
	switch pause := d.OpenPause(); {
	case m.AnswersPause != 0 && (pause == nil || pause.Number != m.AnswersPause || !d.isActive(m.RequestID)):
		d.emit(IgnoreCommand{RequestID: m.RequestID, MessageID: m.MessageID})
		return
	case pause != nil && m.Answer != NoAnswer && d.mayAnswer(m):
		d.answer(p, m)
		return
	case pause != nil:
		d.emit(RepeatQuestion{RequestID: d.Active.RequestID})
	}
	if d.WaitingMessages() >= 2*MaxWaiting {
		d.refuse(p, m)
		return
	}
	named := d.isActive(m.RequestID)
	if d.Active != nil && d.Active.Phase == Accepting && (named || m.AnyActive && m.Queue != event.Prompt) && d.mayJoin(p) {
		d.joinActive(p)
		return
	}
	id := d.enqueue(p, m.RequestID, m.Unusable)
	d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: event.Prompt})
	d.startNext(m.NoSlot)
}

// refuse creates a request for the message that fails at once, so that the sender
// sees why.
func (d *decision) refuse(p PendingMessage, m Message) {
	unusable := slices.Clone(m.Unusable)
	for _, w := range d.Queue {
		unusable = append(unusable, w.RequestID)
	}
	id := d.freeRequestID(m.RequestID, p, unusable)
	d.emit(CreateRequest{RequestID: id, Client: p.Client, MessageID: p.MessageID})
	d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: event.Prompt})
	d.discard([]PendingMessage{p})
	d.emit(ChangeState{RequestID: id, Client: p.Client, State: event.StateFailed, Detail: tooManyWaitingText, ErrorKind: fault.LimitReached})
	d.Ended = appendBounded(d.Ended, id, maxEnded)
}

// mayJoin reports whether the active run may take the message. It takes no event if a
// prompt waits, or if it handles an event of the same rule: events that come faster than
// answers would keep it alive for ever.
func (d *decision) mayJoin(p PendingMessage) bool {
	return p.Rule == "" || !d.promptWaits() && !slices.Contains(d.Active.Rules, p.Rule)
}

// joinActive adds the message to the active run. A prompt that names the run is
// applied at its end, like a followUp.
func (d *decision) joinActive(p PendingMessage) {
	if p.Queue == event.Prompt {
		p.Queue = event.FollowUp
	}
	d.Active.Pending = append(d.Active.Pending, p)
	id := d.Active.RequestID
	d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: p.Queue})
	d.emit(WakeRun{RequestID: id})
	if p.Queue == event.Interrupt {
		d.emit(InterruptRun{RequestID: id})
	}
}

// enqueue makes the message a prompt of the request that [decision.freeRequestID]
// chooses, and returns that request's id. Events of one rule that wait share a request.
func (d *decision) enqueue(p PendingMessage, named string, unusable []string) (requestID string) {
	if i := d.eventsIndex(p.Rule); i >= 0 {
		d.Queue[i].Messages = append(d.Queue[i].Messages, p)
		return d.Queue[i].RequestID
	}
	id := d.freeRequestID(named, p, unusable)
	if i := d.queueIndex(id); i >= 0 {
		d.Queue[i].Messages = append(d.Queue[i].Messages, p)
		if p.Rule == "" {
			d.Queue[i].Rule = "" // now somebody waits for it
		}
		return id
	}
	d.Queue = append(d.Queue, QueuedRequest{RequestID: id, Client: p.Client, Messages: []PendingMessage{p}, Rule: p.Rule})
	d.emit(CreateRequest{RequestID: id, Client: p.Client, MessageID: p.MessageID})
	return id
}

// freeRequestID returns the first usable id of: the request that the message
// names, its elseRequestId, and ids made of its own id.
func (d *decision) freeRequestID(named string, p PendingMessage, unusable []string) string {
	usable := func(id string) bool {
		return id != "" && !d.isActive(id) && !slices.Contains(d.Ended, id) && !slices.Contains(unusable, id)
	}
	own := event.ElseRequest(named, p.MessageID)
	for _, id := range []string{named, p.ElseRequestID, own} {
		if usable(id) {
			return id
		}
	}
	for n := 2; ; n++ {
		if id := fmt.Sprintf("%s-%d", own, n); usable(id) {
			return id
		}
	}
}

// startNext starts the first queued request if nothing is active and a slot is
// free.
func (d *decision) startNext(noSlot bool) {
	if d.Active == nil && len(d.Queue) > 0 && !noSlot {
		w := d.Queue[0]
		d.Queue = slices.Delete(d.Queue, 0, 1)
		d.Active = &Active{RequestID: w.RequestID, Client: w.Client, Phase: Accepting}
		for _, m := range w.Messages {
			if m.Author != "" {
				d.Active.Asker = m.Author
			}
			d.handles(m.Rule)
		}
		d.takeOwnership()
		d.emit(StartRun{RequestID: w.RequestID, Client: w.Client})
		d.emit(ChangeState{RequestID: w.RequestID, Client: w.Client, State: event.StateRunning})
		for _, m := range w.Messages {
			d.applyMessage(w.RequestID, m, event.Prompt)
		}
	}
	d.announceQueued()
}

// announceQueued publishes the state queued of each request that this decision
// created and did not start.
func (d *decision) announceQueued() {
	for _, e := range slices.Clone(d.effects) {
		created, ok := e.(CreateRequest)
		if !ok || d.queueIndex(created.RequestID) < 0 {
			continue
		}
		queued := ChangeState{RequestID: created.RequestID, Client: created.Client, State: event.StateQueued}
		if !slices.Contains(d.effects, Effect(queued)) {
			d.emit(queued)
		}
	}
}

func (d *decision) cancel(c Cancel) {
	reason := c.Reason
	if reason == "" {
		reason = cancelledText
	}
	switch {
	case c.AnyActive && d.Active != nil:
		c.RequestID = d.Active.RequestID
	case c.AnyActive && len(d.Queue) > 0:
		c.RequestID = d.Queue[0].RequestID
	}
	at := d.queueIndex(c.RequestID)
	switch {
	case d.isActive(c.RequestID) && d.Active.Paused != nil:
		if c.CancelQueued {
			d.discard(d.Active.Pending)
			d.Active.Pending = nil
			d.endQueued(0, len(d.Queue), cancelled(reason))
		}
		if d.Active.Paused.Kind != AtLimit {
			d.emit(CloseStep{RequestID: c.RequestID})
		}
		d.Active.Reason = reason
		d.end(ending{State: event.StateCancelled}, nil)
		d.startNext(false)
	case d.isActive(c.RequestID):
		if d.Active.Phase == Accepting {
			d.Active.Phase, d.Active.Reason = Closing, reason
		}
		pending := d.Active.Pending
		d.Active.Pending = nil
		d.emit(CancelRun{RequestID: c.RequestID})
		if c.CancelQueued {
			d.discard(pending)
			d.endQueued(0, len(d.Queue), cancelled(reason))
			return
		}
		d.requeue(c.RequestID, pending, nil)
	case at >= 0 && c.CancelQueued:
		d.endQueued(at, len(d.Queue), cancelled(reason))
	case at >= 0:
		d.endQueued(at, at+1, cancelled(reason))
	default:
		d.emit(IgnoreCommand{RequestID: c.RequestID})
	}
}

// requeue makes prompts of messages that were too late for their run. They belong to what the
// run was about, so a person's message comes before the prompts that wait already.
func (d *decision) requeue(requestID string, pending []PendingMessage, unusable []string) {
	next := 0
	for _, p := range pending {
		waiting := len(d.Queue)
		id := d.enqueue(p, requestID, append([]string{requestID}, unusable...))
		if len(d.Queue) > waiting && p.Rule == "" {
			added := d.Queue[waiting]
			d.Queue = slices.Insert(d.Queue[:waiting], next, added)
			next++
		}
		d.emit(MoveMessage{RequestID: id, MessageID: p.MessageID})
	}
	d.announceQueued()
}

func (d *decision) discard(pending []PendingMessage) {
	for _, p := range pending {
		d.emit(DiscardMessage{MessageID: p.MessageID})
	}
}

// endQueued ends the queued requests from begin to end (exclusive).
func (d *decision) endQueued(begin, end int, e ending) {
	for _, w := range d.Queue[begin:end] {
		d.discard(w.Messages)
		d.emit(ChangeState{RequestID: w.RequestID, Client: w.Client, State: e.State, Detail: e.Detail, ErrorKind: e.Kind})
		d.Ended = appendBounded(d.Ended, w.RequestID, maxEnded)
	}
	d.Queue = slices.Delete(d.Queue, begin, end)
}

// applyPending applies the pending messages of some queue modes, in the order of
// their arrival.
func (d *decision) applyPending(requestID string, modes ...event.Queue) {
	if !d.isWorking(requestID) || d.Active.Phase != Accepting {
		return
	}
	var rest []PendingMessage
	for _, p := range d.Active.Pending {
		if !slices.Contains(modes, p.Queue) || p.Rule != "" && d.promptWaits() {
			rest = append(rest, p)
			continue
		}
		d.applyMessage(requestID, p, p.Queue)
		d.handles(p.Rule)
	}
	d.Active.Pending = rest
}

// handles notes that the active request handles an event of a rule.
func (d *decision) handles(rule string) {
	if rule != "" && !slices.Contains(d.Active.Rules, rule) {
		d.Active.Rules = append(d.Active.Rules, rule)
	}
}

func (d *decision) wouldEnd(in WouldEnd) {
	if !d.isWorking(in.RequestID) {
		return
	}
	if d.Active.Phase == Closing {
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, nil)
		d.startNext(in.NoSlot)
		return
	}
	waiting := len(d.Active.Pending)
	d.applyPending(in.RequestID, event.Steer, event.Interrupt, event.FollowUp)
	if len(d.Active.Pending) < waiting {
		return
	}
	d.end(ending{State: event.StateDone}, nil)
	d.startNext(in.NoSlot)
}

// ending is the end of a request. Kind is the error kind of a failed one.
type ending struct {
	State  event.RequestState
	Detail string
	Kind   fault.Kind
}

func cancelled(reason string) ending { return ending{State: event.StateCancelled, Detail: reason} }

// end closes the active run. Messages that it did not apply become prompts.
func (d *decision) end(e ending, unusable []string) {
	a := d.Active
	d.Active = nil
	d.Raised = withoutPrefix(d.Raised, requestPrefix)
	d.Ended = appendBounded(d.Ended, a.RequestID, maxEnded)
	d.Stopped = e.State == event.StateCancelled || d.Stopped && e.State != event.StateDone
	if e.State == event.StateCancelled && a.Reason != "" {
		e.Detail = a.Reason
	}
	d.emit(ChangeState{RequestID: a.RequestID, Client: a.Client, State: e.State, Detail: e.Detail, ErrorKind: e.Kind})
	d.requeue(a.RequestID, a.Pending, unusable)
}

// takeOwnership starts a new epoch: writes of an earlier owner are refused from
// now on.
func (d *decision) takeOwnership() { d.Epoch++ }

func (d *decision) resume() {
	d.takeOwnership()
	d.emit(ResumeRun{RequestID: d.Active.RequestID, Client: d.Active.Client})
}

// applyMessage applies a message. If the same decision stores it, its mailbox
// row needs no state in between.
func (d *decision) applyMessage(requestID string, p PendingMessage, q event.Queue) {
	for i, e := range d.effects {
		if stored, ok := e.(StoreMessage); ok && stored.MessageID == p.MessageID {
			stored.Applied = true
			d.effects[i] = stored
		}
	}
	d.emit(ApplyMessage{RequestID: requestID, MessageID: p.MessageID, Queue: q, Grant: p.Grant, Agent: p.Agent})
}
