package relay

import (
	"reflect"
	"slices"
	"time"

	"lilac/internal/core/outbox"
)

const (
	// maxCuts bounds how often one answer moves.
	maxCuts = 200
	// typingInterval refreshes an indicator that platforms show for about ten
	// seconds.
	typingInterval = 8 * time.Second
	// finalGrace is how long after the request the end of its output may arrive.
	finalGrace = 10 * time.Second
	// longestRest is how long a follower rests if nothing happens.
	longestRest = time.Minute
	// closeFor is how long after the end, or after a restart, a failing edit is
	// retried.
	closeFor = 24 * time.Hour
)

const (
	reasonHidden = "The answer cannot be shown: "
	reasonSilent = "Nothing was heard of this request for a long time, so it was stopped."
)

// Decide returns the state after the input, and the effects. It modifies nothing
// that it receives. Only the outcome of an outbox row still changes a finished
// relay: a message that was sent late is announced all the same.
func Decide(s State, in Input, now time.Time) (State, []Effect) {
	if _, late := in.(RowFinished); s.Row.Finished && !late {
		return s, nil
	}
	d := decision{Row: s.Row, pace: s.Pace, now: now}
	switch in := in.(type) {
	case ReplyStarted:
		if !d.Started {
			d.Started, d.ReplyTo, d.Mention = true, in.ReplyTo, in.Mention
			d.Asker, d.StartedAt = in.Asker, now.UnixMilli()
		}
	case RequestEnded:
		if in.State.Ended() && d.End == nil {
			// A request that was not answered has nothing to show.
			d.End, d.Finished = &End{State: in.State, Detail: in.Detail, At: now.UnixMilli()}, !d.Started
			d.questionAnswered(QuestionAnswered{Outcome: "This question is no longer open."})
		}
	case QuestionAsked:
		d.questionAsked(in)
	case QuestionAnswered:
		d.questionAnswered(in)
	case Moved:
		if len(d.Cuts) < maxCuts && !slices.ContainsFunc(d.Cuts, func(c Cut) bool { return c.ID == in.Cut.ID }) {
			d.Cuts = append(slices.Clone(d.Cuts), in.Cut)
		}
	case RowFinished:
		d.rowFinished(in)
	case Checked:
		d.check(in)
	case Recalled:
		d.recalled(in)
	case Rendered:
		d.show(in)
	case EditDone:
		d.editDone(in)
	case DeleteDone:
		d.deleteDone(in)
	case Attended:
		d.attend(in)
	case PauseChecked:
		if !in.Paused {
			d.pace.Stopped = true
			d.emit(Cancel{Reason: reasonSilent})
		}
	}
	return State{d.Row, d.pace}, d.effects
}

// decision is a decision in progress.
type decision struct {
	Row
	pace    Pace
	now     time.Time
	effects []Effect
}

func (d *decision) emit(e Effect) { d.effects = append(d.effects, e) }

// rowFinished records the outcome of a message's outbox row.
func (d *decision) rowFinished(in RowFinished) {
	m, r := in.Message, in.Row
	made, ok := d.message(in.Key)
	if !ok {
		return
	}
	made.State, made.ID = MessageLost, ""
	switch {
	case r.State == outbox.Sent:
		made.State, made.ID = MessageSent, r.MessageID
		d.emit(Announce{Row: r, Message: m})
	case r.State == outbox.Failed && r.Withdrawn:
		made.State = MessageUnsent
	case r.State == outbox.Failed && len(r.Send.Files) > 0:
		// The files may be the cause. The outcome without them decides about the rest.
		made.ID, made.Refused = "", r.Reason
		if r.Send.Text != "" {
			made.State = MessagePlanned
			made.Copies++
			send := r.Send
			send.Files, send.Nonce = nil, ""
			d.emit(Resend{Message: made, Send: send})
		}
	case r.State == outbox.Failed && d.Reason == "":
		d.Reason = r.Reason
	case r.State == outbox.Expired && !r.Unsure && (d.End == nil || r.CreatedAt < d.End.At):
		// After the request's end it is planned once more, but not again. The messages
		// that were planned behind it must stay behind it.
		made.State = MessageUnsent
		d.emit(Withdraw{})
	}
	d.set(made)
}

// check decides whether the output has ended and what to do next.
func (d *decision) check(in Checked) {
	if d.Reason != "" && d.pace.GaveUp.IsZero() {
		d.giveUp()
		return
	}
	if d.Reason != "" && d.closed() {
		d.Finished = true
		return
	}
	ended, wait := d.outputEnded(in)
	switch {
	case !ended && d.Reason != "":
		d.emit(Wait{wait}) // the end is not known yet
		return
	case ended && !d.pace.Recalled:
		d.emit(Recall{Complete: in.Complete})
		return
	}
	// A cut that names no message is at the end of the text so far.
	if atEnd := func(c Cut) bool { return c.MessageID == "" && c.Offset < 0 }; slices.ContainsFunc(d.Cuts, atEnd) {
		d.Cuts = slices.Clone(d.Cuts)
		for i, c := range d.Cuts {
			if atEnd(c) {
				d.Cuts[i].Offset = in.TextLength
			}
		}
	}
	d.emit(Show{Ended: ended})
	d.emit(Wait{wait})
}

// outputEnded reports whether the output has ended: its last event was read, or
// never can be, or did not arrive soon after the request's end although the bus
// is available.
func (d *decision) outputEnded(in Checked) (ended bool, wait time.Duration) {
	if d.End == nil || in.Delayed && !in.Complete {
		d.pace.Ended = time.Time{}
		return false, longestRest
	}
	if d.pace.Ended.IsZero() {
		d.pace.Ended = d.now
	}
	left := finalGrace - d.now.Sub(d.pace.Ended)
	if in.Complete || in.Unreadable || left <= 0 {
		return true, longestRest
	}
	return false, left
}

// recalled continues without the journal if reading it again cannot help.
func (d *decision) recalled(in Recalled) {
	d.pace.Recalled = in.Err == nil || in.Complete || !mayRecover(in.Err)
	if in.Err != nil {
		d.emit(Report{Err: in.Err, Retry: !d.pace.Recalled})
	}
}

// show compares the messages that people should see with those that they see.
func (d *decision) show(in Rendered) {
	if in.After == "" && !reflect.DeepEqual(d.Row, in.Basis) || d.Reason != "" && d.pace.GaveUp.IsZero() {
		return // the views are outdated, or nothing can be shown: check again
	}
	views := in.Views
	if d.Reason != "" {
		views = d.standing(in.Views, in.MaxText)
	}
	if in.Ended {
		views = d.withPing(views, in.Askers, in.PingAfter)
	}
	settled, skip := true, in.After != ""
	for _, v := range views {
		if skip {
			skip = v.Key != in.After
			continue
		}
		m, exists := d.message(v.Key)
		switch {
		case !exists || m.State == MessageUnsent:
			settled = false
			if !d.plan(m, v, exists) {
				d.emit(Wait{longestRest})
				return // the message that it replies to has no id yet
			}
		case m.State == MessagePlanned:
			settled = false
		case m.State == MessageSent && m.Old != "":
			d.call(in, Delete{Message: m})
			return
		case m.State == MessageSent && (v.Text != "" || v.Bare) && m.Shown != v.fingerprint():
			d.call(in, Edit{Message: m, View: v})
			return
		}
	}
	if in.Ended {
		for _, m := range d.Messages {
			if skip {
				skip = m.Key != in.After
				continue
			}
			if m.State == MessageLost || m.State == MessageUnsent || slices.ContainsFunc(views, func(v View) bool { return v.Key == m.Key }) {
				continue
			}
			settled = false
			if m.State == MessageSent {
				d.call(in, Delete{Message: m})
				return
			}
		}
		if settled && in.After == "" {
			d.Finished = true
			return
		}
	}
	d.emit(Wait{longestRest})
}

// plan plans a message that is new or was not sent. It returns false while the id
// of the message that it replies to is missing.
func (d *decision) plan(m Message, v View, exists bool) bool {
	if v.ReplyToKey != "" {
		target, _ := d.message(v.ReplyToKey)
		if target.State != MessageSent && target.State != MessageLost {
			return false
		}
		v.ReplyTo = target.ID
	}
	if exists {
		m.Copies++
	} else {
		m.Key = v.Key
		for _, b := range v.Files {
			m.Files = append(m.Files, b.BinaryID)
		}
	}
	d.send(m, v)
	return true
}

func (d *decision) send(m Message, v View) {
	m.State, m.Shown, m.Pinged = MessagePlanned, v.fingerprint(), v.Users
	d.set(m)
	d.pace.Edited = d.now
	d.emit(Plan{Message: m, View: v})
}

// call emits an edit or a deletion, or a wait if it is too early for one: after a
// failure, or, before the end, because edits must keep their interval. The
// outcome decides what follows.
func (d *decision) call(in Rendered, e Effect) {
	if left := d.pace.RetryAt.Sub(d.now); left > 0 {
		d.emit(Wait{left})
		return
	}
	if left := in.Interval - d.now.Sub(d.pace.Edited); left > 0 && !in.Ended {
		d.emit(Wait{left})
		return
	}
	if edit, ok := e.(Edit); ok {
		// If the outcome is lost, nobody knows what the message shows.
		m := edit.Message
		m.Shown = ""
		d.set(m)
	}
	d.emit(e)
}

// attend shows that an answer is in progress, and stops a request that is silent
// for too long.
func (d *decision) attend(in Attended) {
	left := in.IdleLimit - d.now.Sub(in.Heard)
	if left <= 0 && !d.pace.Stopped {
		d.emit(CheckPause{})
	}
	if left <= 0 {
		left = in.IdleLimit
	}
	left = max(left, time.Second)
	if !in.Visible {
		left = min(left, typingInterval)
		if in.Typing && d.now.Sub(d.pace.Typed) >= typingInterval {
			d.pace.Typed = d.now
			d.emit(ShowTyping{})
		}
	}
	d.emit(Wait{left})
}
