package session

import (
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// limitReached lets the active run wait for an answer.
func (d *decision) limitReached(in LimitReached) {
	switch {
	case !d.works(in.RequestID):
	case d.Active.Phase == Closing:
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, nil)
		d.next(in.Hold)
	default:
		d.Active.Pauses++
		in.Pause.Number = d.Active.Pauses
		d.Active.Paused = &in.Pause
		d.do(Effect{Kind: EffectPause, RequestID: in.RequestID, Client: d.Active.Client, Detail: in.Pause.Question})
	}
}

// mayAnswer reports whether the message is of the person who asked, or was made
// to answer by who may do anything here.
func (d *decision) mayAnswer(m Message) bool {
	return m.Answers != 0 || d.asks(m.Author)
}

// answer takes a message as the answer to the question that waits: it goes
// into the paused request, which goes on or ends.
func (d *decision) answer(p Pending, m Message) {
	id, pause := d.Active.RequestID, *d.Active.Paused
	d.Active.Paused = nil
	d.do(Effect{Kind: EffectKeep, RequestID: id, MessageID: p.MessageID, Queue: event.Steer})
	d.do(Effect{Kind: EffectAnswered, RequestID: id, Client: d.Active.Client, Answer: m.Answer, Pause: pause})
	d.do(Effect{Kind: EffectApply, RequestID: id, MessageID: p.MessageID, Queue: event.Steer})
	if m.Answer == Stop {
		d.end(ending{State: event.StateCancelled, Detail: pause.ended()}, nil)
		d.next(m.Hold)
		return
	}
	d.raise(pause, m.Used)
	d.own(EffectResume)
}

// raise allows as much as the limit again, counted from what is used: that may
// be far beyond it, and more than when it was reached, by others' work.
func (d *decision) raise(p Pause, used int64) {
	if p.Day != "" && p.Day != d.RaisedDay {
		d.Raised = without(d.Raised, dayPrefix)
		d.RaisedDay = p.Day
	}
	if d.Raised == nil {
		d.Raised = map[Limit]int64{}
	}
	d.Raised[p.Limit] = max(p.Used, used)
}

func (d *decision) expired(in Expired) {
	if !d.runs(in.RequestID) || d.Active.Paused == nil || d.Active.Paused.Number != in.Pause {
		return
	}
	detail := d.Active.Paused.expired()
	d.end(ending{event.StateFailed, detail, fault.LimitReached}, nil)
	d.next(in.Hold)
}
