package session

import (
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// limitReached pauses the active run until somebody answers.
func (d *decision) limitReached(in LimitReached) {
	switch {
	case !d.isWorking(in.RequestID):
	case d.Active.Phase == Closing:
		d.end(ending{State: event.StateCancelled, Detail: d.Active.Reason}, nil)
		d.startNext(in.NoSlot)
	default:
		d.Active.Pauses++
		in.Pause.Number = d.Active.Pauses
		d.Active.Paused = &in.Pause
		d.emit(PauseRun{RequestID: in.RequestID})
	}
}

// mayAnswer reports whether the message may answer the open pause. Interfaces that
// set AnswersPause have checked that themselves.
func (d *decision) mayAnswer(m Message) bool {
	return m.AnswersPause != 0 || d.acceptsAnswerOf(m.Author)
}

// answer applies a message as the answer to the open pause: the request continues
// or ends.
func (d *decision) answer(p PendingMessage, m Message) {
	id, pause := d.Active.RequestID, *d.Active.Paused
	d.Active.Paused = nil
	d.emit(StoreMessage{RequestID: id, MessageID: p.MessageID, Queue: event.Steer})
	d.emit(RecordAnswer{RequestID: id, Answer: m.Answer, Pause: pause.Number})
	d.applyMessage(id, p, event.Steer)
	if m.Answer == Stop {
		d.end(ending{State: event.StateCancelled, Detail: pause.stoppedText()}, nil)
		d.startNext(m.NoSlot)
		return
	}
	d.raise(pause, m.Used)
	d.resume()
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
	d.Active.Paused = nil
	d.emit(RecordAnswer{RequestID: in.RequestID, Answer: NewDay, Pause: in.Pause})
	d.resume()
}

func (d *decision) expired(in Expired) {
	if !d.waits(in.RequestID, in.Pause) {
		return
	}
	detail := d.Active.Paused.expiredText()
	d.end(ending{event.StateFailed, detail, fault.LimitReached}, nil)
	d.startNext(in.NoSlot)
}
