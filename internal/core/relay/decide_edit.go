package relay

import (
	"errors"
	"slices"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// retryPause is the wait after a failure. For a platform it doubles up to
	// maxRetryPause.
	retryPause    = 2 * time.Second
	maxRetryPause = 30 * time.Second
	// longestPause bounds the wait that a platform asks for.
	longestPause = time.Minute
)

// restLost is shown below the last message of an answer whose rest could not be
// sent.
const restLost = "⏹️ The rest could not be shown here; the page has all of it."

func (d *decision) editDone(in EditDone) {
	m, ok := d.message(in.Edit.Message.Key)
	if !ok {
		return
	}
	d.pace.Edited = d.now
	switch {
	case in.Err == nil:
		m.Shown = in.Edit.View.fingerprint()
	case fault.KindOf(in.Err) == fault.Conflict:
		// The platform accepts no more edits: send a copy and delete this message.
		m.Copies++
		m.ID, m.Old = "", m.ID
		d.send(m, in.Edit.View)
		return
	default:
		if !d.callFailed(m, m.ID, in.Ended, in.Err) {
			return
		}
		m.State = MessageLost
	}
	d.pace.Failures = 0
	d.set(m)
}

func (d *decision) deleteDone(in DeleteDone) {
	m, ok := d.message(in.Delete.Message.Key)
	if !ok {
		return
	}
	d.pace.Edited = d.now
	if in.Err != nil && !d.callFailed(m, in.Delete.target(), in.Ended, in.Err) {
		return
	}
	if m.Old != "" {
		m.Old = ""
	} else {
		m.State = MessageLost
	}
	d.pace.Failures = 0
	d.set(m)
}

// target returns the id of the message that is deleted.
func (e Delete) target() string {
	if e.Message.Old != "" {
		return e.Message.Old
	}
	return e.Message.ID
}

// callFailed decides about a failed edit or deletion. It returns true if the
// message is left as it is.
func (d *decision) callFailed(m Message, id string, ended bool, err error) bool {
	switch kind := fault.KindOf(err); {
	case kind == fault.NotFound && !channelGone(err):
		return true // somebody deleted the message and does not want it back
	case kind == fault.RateLimited && fault.RetryAfterOf(err) > 0:
		// This is no failure of the message, however long it lasts.
		d.pace.RetryAt = d.now.Add(min(fault.RetryAfterOf(err), longestPause))
	case kind == fault.Denied || channelGone(err):
		d.refused(m, err)
	case !ended || mayPass(kind) && d.now.Sub(d.pace.Ended) < closeFor:
		d.retryIn(maxRetryPause)
		d.emit(Report{MessageID: id, Err: err, Retry: true})
	default:
		d.emit(Report{MessageID: id, Err: err})
		return true
	}
	return false
}

func (d *decision) retryIn(most time.Duration) {
	d.pace.RetryAt = d.now.Add(min(retryPause<<min(d.pace.Failures, 10), most))
	d.pace.Failures++
}

// refused records that we may not write to the channel, or that it is gone. That
// ends the request. If it has, the call is retried, or the message left alone.
func (d *decision) refused(m Message, err error) {
	switch {
	case d.pace.GaveUp.IsZero():
		d.Reason = fault.ToWire(err).Message
	case channelGone(err):
		m.State, m.Old = MessageLost, ""
		d.set(m)
	default:
		d.retryIn(longestPause)
	}
}

// giveUp ends a request whose output cannot be shown any more, says so once, and withdraws
// its unsent messages. The messages that people see are closed later.
func (d *decision) giveUp() {
	d.pace.GaveUp = d.now
	if !d.Reported {
		d.Reported = true
		d.emit(Refuse{})
	}
	if d.End == nil {
		d.emit(Cancel{Reason: reasonHidden + d.Reason})
	}
	d.emit(Withdraw{})
}

// closed reports whether nothing more can be done after giving up.
func (d *decision) closed() bool {
	return d.now.Sub(d.pace.GaveUp) >= closeFor || !slices.ContainsFunc(d.Messages, func(m Message) bool {
		return m.State == MessageSent || m.State == MessagePlanned
	})
}

// standing returns the views whose messages people see after the relay gave up:
// these show how the answer ended, without a button that would stop nothing. The
// last one says so if more should follow.
func (d *decision) standing(views []View, maxText int) []View {
	seen := slices.DeleteFunc(slices.Clone(views), func(v View) bool {
		m, _ := d.message(v.Key)
		return m.State != MessageSent
	})
	n := len(seen) - 1
	if n < 0 || seen[n].Key == views[len(views)-1].Key || seen[n].Text == "" {
		return seen
	}
	if text := seen[n].Text + "\n" + restLost; units(text) <= maxText {
		seen[n].Text = text
	}
	return seen
}

// mayPass reports whether the same call may succeed later: the platform or the
// network is unavailable, its token is in doubt, or the error is ours.
func mayPass(k fault.Kind) bool {
	return k.Retryable() || k == fault.Unauthenticated || k == fault.Internal
}

// mayRecover reports whether a failed read may succeed later.
func mayRecover(err error) bool {
	return fault.KindOf(err) != fault.NotFound && !db.IsDamaged(err)
}

func channelGone(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == surface.CodeUnknownChannel
}
