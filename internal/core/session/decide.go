package session

import (
	"fmt"
	"slices"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// detailExhausted is what people read when a request was given up.
const detailExhausted = "The program stopped several times in the middle of this request, so it was given up. Ask again."

// detailTooMany is what people read when a message was one too many.
const detailTooMany = "Too many messages wait in this conversation, so this one was not taken. Send it again when they are answered."

const detailCancelled = "Cancelled."

// Decide is the session's rules. It returns the next state and what is to be
// done, and changes nothing that it was given.
func Decide(s State, in Input, _ time.Time) (State, []Effect) {
	d := decision{State: s.clone()}
	switch in := in.(type) {
	case Message:
		d.message(in)
	case Cancel:
		d.cancel(in)
	case StepBoundary:
		d.take(in.RequestID, event.Steer, event.Interrupt)
	case WouldEnd:
		d.wouldEnd(in)
	case LimitReached:
		d.limitReached(in)
	case Expired:
		d.expired(in)
	case Ended:
		if d.works(in.RequestID) {
			for _, id := range in.Drop {
				if at := d.waiting(id); at >= 0 {
					d.drop(at, at+1, cancelled(in.DropReason))
				}
			}
			d.end(ending{in.State, in.Detail, in.Kind}, nil)
			d.next(in.Hold)
		}
	case Unreadable:
		if at := d.waiting(in.RequestID); at >= 0 {
			d.drop(at, at+1, ending{event.StateFailed, in.Detail, in.Kind})
		}
	case Drained:
		if d.runs(in.RequestID) {
			d.Active.Drained = true
		}
	case Recovered:
		d.recovered(in)
	case Room:
		d.next(false)
	}
	return d.State, d.effects
}

type decision struct {
	State
	effects []Effect
}

func (d *decision) do(e Effect) { d.effects = append(d.effects, e) }

func (d *decision) message(m Message) {
	if m.Seen || slices.Contains(d.Seen, m.MessageID) {
		d.do(Effect{Kind: EffectDrop, MessageID: m.MessageID, RequestID: m.RequestID})
		return
	}
	d.Seen = remember(d.Seen, m.MessageID, maxSeen)
	p := Pending{MessageID: m.MessageID, Queue: m.Queue, Client: m.Client, ElseRequestID: m.ElseRequestID, Author: m.Author}
	if p.ElseRequestID == "" {
		p.ElseRequestID = event.ElseRequest(m.RequestID, m.MessageID)
	}
	switch pause := d.Waits(); {
	case m.Answers != 0 && (pause == nil || pause.Number != m.Answers || !d.runs(m.RequestID)):
		d.do(Effect{Kind: EffectDrop, MessageID: m.MessageID, RequestID: m.RequestID})
		return
	case pause != nil && m.Answer != NoAnswer && d.mayAnswer(m):
		d.answer(p, m)
		return
	case pause != nil:
		d.do(Effect{Kind: EffectAsk, RequestID: d.Active.RequestID, Client: d.Active.Client})
	}
	if d.Waiting() >= 2*MaxWaiting {
		d.refuse(p, m)
		return
	}
	named := d.runs(m.RequestID)
	if d.Active != nil && d.Active.Phase == Accepting && (named || m.AnyActive && m.Queue != event.Prompt) {
		d.join(p)
		return
	}
	d.enqueue(p, m.RequestID, m.Over)
	d.next(m.Hold)
}

// refuse lets a request of the message's own fail at once, so that whoever sent
// it sees why.
func (d *decision) refuse(p Pending, m Message) {
	over := slices.Clone(m.Over)
	for _, w := range d.Queue {
		over = append(over, w.RequestID)
	}
	id := d.free(m.RequestID, p, over)
	d.do(Effect{Kind: EffectCreate, RequestID: id, Client: p.Client, MessageID: p.MessageID})
	d.do(Effect{Kind: EffectKeep, RequestID: id, MessageID: p.MessageID, Queue: event.Prompt})
	d.discard([]Pending{p})
	d.do(Effect{Kind: EffectLifecycle, RequestID: id, Client: p.Client, State: event.StateFailed, Detail: detailTooMany, ErrorKind: fault.LimitReached})
	d.Ended = remember(d.Ended, id, maxEnded)
}

// join lets the message wait for the active run. A prompt that names the run
// is more of the same request: it is taken when the run would have ended.
func (d *decision) join(p Pending) {
	if p.Queue == event.Prompt {
		p.Queue = event.FollowUp
	}
	d.Active.Pending = append(d.Active.Pending, p)
	id := d.Active.RequestID
	d.do(Effect{Kind: EffectKeep, RequestID: id, MessageID: p.MessageID, Queue: p.Queue})
	d.do(Effect{Kind: EffectWake, RequestID: id})
	if p.Queue == event.Interrupt {
		d.do(Effect{Kind: EffectInterrupt, RequestID: id})
	}
}

// enqueue makes the message a prompt: of the request that it names, unless
// that is over, else of its elseRequestId, else of one named by its own id.
func (d *decision) enqueue(p Pending, named string, over []string) {
	id := d.free(named, p, over)
	if i := d.waiting(id); i >= 0 {
		d.Queue[i].Messages = append(d.Queue[i].Messages, p)
		d.do(Effect{Kind: EffectKeep, RequestID: id, MessageID: p.MessageID, Queue: event.Prompt})
		return
	}
	d.Queue = append(d.Queue, Waiting{RequestID: id, Client: p.Client, Messages: []Pending{p}})
	d.do(Effect{Kind: EffectCreate, RequestID: id, Client: p.Client, MessageID: p.MessageID})
	d.do(Effect{Kind: EffectKeep, RequestID: id, MessageID: p.MessageID, Queue: event.Prompt})
}

func (d *decision) free(named string, p Pending, over []string) string {
	usable := func(id string) bool {
		return id != "" && !d.runs(id) && !slices.Contains(d.Ended, id) && !slices.Contains(over, id)
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

// next starts the first request that waits, or says of the last one that it
// is queued.
func (d *decision) next(hold bool) {
	if d.Active == nil && len(d.Queue) > 0 && !hold {
		w := d.Queue[0]
		d.Queue = slices.Delete(d.Queue, 0, 1)
		d.Active = &Active{RequestID: w.RequestID, Client: w.Client, Phase: Accepting}
		for _, m := range w.Messages {
			if m.Author != "" {
				d.Active.Asker = m.Author
			}
		}
		d.own(EffectStart)
		d.do(Effect{Kind: EffectLifecycle, RequestID: w.RequestID, Client: w.Client, State: event.StateRunning})
		for _, m := range w.Messages {
			d.do(Effect{Kind: EffectApply, RequestID: w.RequestID, MessageID: m.MessageID, Queue: event.Prompt})
		}
	}
	d.announce()
}

// announce says of every request that was made just now and has to wait that
// it is queued.
func (d *decision) announce() {
	for _, e := range slices.Clone(d.effects) {
		if e.Kind == EffectCreate && d.waiting(e.RequestID) >= 0 && !d.said(e.RequestID, event.StateQueued) {
			d.do(Effect{Kind: EffectLifecycle, RequestID: e.RequestID, Client: e.Client, State: event.StateQueued})
		}
	}
}

func (d *decision) said(requestID string, state event.RequestState) bool {
	return slices.ContainsFunc(d.effects, func(e Effect) bool {
		return e.Kind == EffectLifecycle && e.RequestID == requestID && e.State == state
	})
}

func (d *decision) cancel(c Cancel) {
	reason := c.Reason
	if reason == "" {
		reason = detailCancelled
	}
	switch {
	case c.AnyActive && d.Active != nil:
		c.RequestID = d.Active.RequestID
	case c.AnyActive && len(d.Queue) > 0:
		c.RequestID = d.Queue[0].RequestID
	}
	at := d.waiting(c.RequestID)
	switch {
	case d.runs(c.RequestID) && d.Active.Paused != nil:
		if c.CancelQueued {
			d.discard(d.Active.Pending)
			d.Active.Pending = nil
			d.drop(0, len(d.Queue), cancelled(reason))
		}
		d.Active.Reason = reason
		d.end(ending{State: event.StateCancelled}, nil)
		d.next(false)
	case d.runs(c.RequestID):
		if d.Active.Phase == Accepting {
			d.Active.Phase, d.Active.Reason = Closing, reason
		}
		pending := d.Active.Pending
		d.Active.Pending = nil
		d.do(Effect{Kind: EffectCancel, RequestID: c.RequestID, Detail: d.Active.Reason})
		if c.CancelQueued {
			d.discard(pending)
			d.drop(0, len(d.Queue), cancelled(reason))
			return
		}
		d.requeue(c.RequestID, pending, nil)
	case at >= 0 && c.CancelQueued:
		d.drop(at, len(d.Queue), cancelled(reason))
	case at >= 0:
		d.drop(at, at+1, cancelled(reason))
	default:
		d.do(Effect{Kind: EffectDrop, RequestID: c.RequestID})
	}
}

// requeue makes prompts of messages that came too late for their run.
func (d *decision) requeue(requestID string, pending []Pending, over []string) {
	for _, p := range pending {
		d.enqueue(p, requestID, append([]string{requestID}, over...))
		d.effects[len(d.effects)-1].Kind = EffectMove
	}
	d.announce()
}

func (d *decision) discard(pending []Pending) {
	for _, p := range pending {
		d.do(Effect{Kind: EffectDiscard, MessageID: p.MessageID})
	}
}

// drop ends the queued requests from begin to end.
func (d *decision) drop(begin, end int, e ending) {
	for _, w := range d.Queue[begin:end] {
		d.discard(w.Messages)
		d.do(Effect{Kind: EffectLifecycle, RequestID: w.RequestID, Client: w.Client, State: e.State, Detail: e.Detail, ErrorKind: e.Kind})
		d.Ended = remember(d.Ended, w.RequestID, maxEnded)
	}
	d.Queue = slices.Delete(d.Queue, begin, end)
}

// take applies the pending messages of some modes, in the order they came.
func (d *decision) take(requestID string, modes ...event.Queue) {
	if !d.works(requestID) || d.Active.Phase != Accepting {
		return
	}
	var rest []Pending
	for _, p := range d.Active.Pending {
		if !slices.Contains(modes, p.Queue) {
			rest = append(rest, p)
			continue
		}
		d.do(Effect{Kind: EffectApply, RequestID: requestID, MessageID: p.MessageID, Queue: p.Queue})
	}
	d.Active.Pending = rest
}

func (d *decision) wouldEnd(in WouldEnd) {
	if !d.works(in.RequestID) {
		return
	}
	if d.Active.Phase == Closing {
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, nil)
		d.next(in.Hold)
		return
	}
	if len(d.Active.Pending) > 0 {
		d.take(in.RequestID, event.Steer, event.Interrupt, event.FollowUp)
		return
	}
	d.end(ending{State: event.StateDone}, nil)
	d.next(in.Hold)
}

// ending is how a request ends; Kind is that of the error of a failed one.
type ending struct {
	State  event.RequestState
	Detail string
	Kind   fault.Kind
}

func cancelled(reason string) ending { return ending{State: event.StateCancelled, Detail: reason} }

// end closes the active run. What it did not take goes on as prompts.
func (d *decision) end(e ending, over []string) {
	a := d.Active
	d.Active = nil
	d.Raised = without(d.Raised, requestPrefix)
	d.Ended = remember(d.Ended, a.RequestID, maxEnded)
	if e.State == event.StateCancelled && a.Reason != "" {
		e.Detail = a.Reason
	}
	d.do(Effect{Kind: EffectLifecycle, RequestID: a.RequestID, Client: a.Client, State: e.State, Detail: e.Detail, ErrorKind: e.Kind})
	d.requeue(a.RequestID, a.Pending, over)
}

func (d *decision) recovered(in Recovered) {
	switch {
	case d.Active == nil:
		d.next(in.Hold)
	case d.Active.Paused != nil:
		// It goes on waiting.
	case d.Active.Phase == Closing:
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, in.Over)
		d.next(in.Hold)
	case in.Exhausted:
		d.end(ending{event.StateFailed, detailExhausted, fault.Internal}, in.Over)
		d.next(in.Hold)
	default:
		d.Active.Drained = false
		d.own(EffectResume)
	}
}

// own gives the active run to a new owner; what an earlier one still writes
// is refused from now on.
func (d *decision) own(kind EffectKind) {
	d.Epoch++
	d.do(Effect{Kind: kind, RequestID: d.Active.RequestID, Client: d.Active.Client})
}
