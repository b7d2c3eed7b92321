package outbox

import (
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// MaxAttempts caps how often a row is sent, not counting what [Row.Excused]
	// does: one that brings the program down is not sent for ever.
	MaxAttempts = 8
	// maxBackoff caps the wait between two calls that we choose, longestWait the
	// one that a platform asks for.
	maxBackoff  = 30 * time.Second
	longestWait = 5 * time.Minute
	// searchTTL is how long after its time a row is looked for on a platform that
	// cannot be asked; those behind it in the channel wait meanwhile.
	searchTTL = time.Hour
	// settle is how long after a call its message may still appear: only then
	// does not finding it mean that it was not made.
	settle = 3 * time.Second
)

// Action is what a row needs next.
type Action string

// The actions.
const (
	// Call sends the row; it is in the state sending already.
	Call Action = "call"
	// Reconcile asks the platform whether an earlier call made the message.
	Reconcile Action = "reconcile"
	// Wait comes back at the row's NotBefore.
	Wait Action = "wait"
	// Rest means that nothing happens to the row any more.
	Rest Action = "rest"
)

// Next decides what to do with a row that nobody works on.
func Next(r Row, now time.Time) (Row, Action) {
	ms := now.UnixMilli()
	switch {
	case r.State.Final():
		return r, Rest
	case r.State == Sending: // a crash in the call
		r.State = Unknown
		return Next(r, now)
	case r.NotBefore > ms && r.NotBefore-ms <= longestWait.Milliseconds():
		return r, Wait // longer than ever is waited only if the clock was set back
	case r.State == Unknown:
		return r, Reconcile
	case ms >= r.ExpiresAt:
		r.State, r.Reason = Expired, "It was too old to be sent."
		return r, Rest
	case r.Attempts-r.Excused >= MaxAttempts:
		r.State = Failed
		if r.Reason == "" {
			r.Reason = "It could not be sent in many attempts."
		}
		return r, Rest
	}
	r.State, r.SendingAt = Sending, ms
	r.Attempts++
	return r, Call
}

// Called decides what a call's outcome means.
func Called(r Row, m surface.Message, err error, now time.Time) Row {
	if err == nil {
		return sent(r, m)
	}
	switch fault.KindOf(err) {
	case fault.RateLimited, fault.Unavailable, fault.Unauthenticated:
		r.State = Planned
		r.Excused++
	case fault.Timeout: // nobody knows whether the message was made
		r.State = Unknown
		r.Excused++
	case fault.Invalid, fault.Denied, fault.NotFound, fault.TooLarge, fault.Gone, fault.Conflict:
		r.State, r.Reason = Failed, fault.ToWire(err).Message
		return r
	default: // the same, and the trouble is ours
		r.State = Unknown
	}
	r.Reason = fault.ToWire(err).Message
	wait := max(backoff(r.Attempts), min(fault.RetryAfterOf(err), longestWait))
	r.NotBefore = now.Add(wait).UnixMilli()
	return r
}

// Found decides what a search for the row's message means.
func Found(r Row, m surface.Message, found bool, err error, now time.Time) Row {
	switch ms := now.UnixMilli(); {
	case err != nil:
		switch fault.KindOf(err) {
		case fault.Denied, fault.NotFound:
			r.State, r.Reason = Failed, fault.ToWire(err).Message
		default:
			r.NotBefore = now.Add(backoff(r.Attempts)).UnixMilli()
			if ms >= r.ExpiresAt+searchTTL.Milliseconds() {
				r.State, r.Unsure, r.Reason = Expired, true, "Whether it was sent could not be found out in time."
			}
		}
	case found:
		return sent(r, m)
	case ms < r.SendingAt+settle.Milliseconds():
		r.SendingAt = min(r.SendingAt, ms) // the clock may have been set back
		r.NotBefore = r.SendingAt + settle.Milliseconds()
	default:
		r.State, r.NotBefore = Planned, 0
	}
	return r
}

// withdrawnReason is why a row failed that nobody wants any more.
const withdrawnReason = "It was withdrawn before it was sent."

// Withdraw decides what becomes of a row that nobody wants any more.
func Withdraw(r Row) Row {
	r.Withdrawn = true
	if r.State == Planned {
		r.State, r.Reason, r.NotBefore = Failed, withdrawnReason, 0
	}
	return r
}

// Merge decides what is written of a row that was worked on: now is how it is
// kept. What was withdrawn meanwhile does not leave any more.
func Merge(r, now Row) Row {
	switch {
	case now.State.Final():
		return now
	case now.Withdrawn:
		return Withdraw(r)
	}
	return r
}

func sent(r Row, m surface.Message) Row {
	r.State, r.MessageID, r.Reason, r.NotBefore = Sent, m.ID, "", 0
	return r
}

// backoff doubles from one second.
func backoff(attempts int) time.Duration {
	d := time.Second << min(max(attempts-1, 0), 16)
	return min(d, maxBackoff)
}
