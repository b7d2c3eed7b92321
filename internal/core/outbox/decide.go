package outbox

import (
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

const (
	// MaxAttempts bounds how often a row is sent, not counting [Row.Excused], so
	// that a row that crashes the program is not sent forever.
	MaxAttempts = 8
	// maxBackoff bounds our own backoff, longestWait the one that a platform asks
	// for.
	maxBackoff  = 30 * time.Second
	longestWait = 5 * time.Minute
	// searchTTL is how long after its expiry a row is searched for on a platform
	// that is unavailable. The rows behind it in the channel wait meanwhile.
	searchTTL = time.Hour
	// settleTime is how long after a call its message may still appear. Only after
	// it does an unsuccessful search mean that the message was not created.
	settleTime = 3 * time.Second
)

// withdrawnReason is the reason of a withdrawn row.
const withdrawnReason = "It was withdrawn before it was sent."

// Decide returns the row after the input, and the effects. A final row never
// changes again.
func Decide(r Row, in Input, now time.Time) (Row, []Effect) {
	if r.State.Final() {
		return r, nil
	}
	switch in := in.(type) {
	case Due:
		return decideDue(r, in, now)
	case Called:
		return conclude(decideCalled(r, in, now), in.Message)
	case Found:
		return conclude(decideFound(r, in, now), in.Message)
	case Withdrawn:
		r.Withdrawn = true
		return conclude(r, surface.Message{})
	}
	return r, nil
}

// conclude ends a withdrawn row that is not in flight and returns the effects of
// a row that is final or waits.
func conclude(r Row, m surface.Message) (Row, []Effect) {
	if r.Withdrawn && r.State == Planned {
		r.State, r.Reason, r.NotBefore = Failed, withdrawnReason, 0
	}
	switch {
	case r.State.Final():
		return r, []Effect{Finish{Message: m}}
	case r.NotBefore > 0:
		return r, []Effect{Wait{Until: r.NotBefore}}
	}
	return r, nil
}

func decideDue(r Row, in Due, now time.Time) (Row, []Effect) {
	if r.State == Sending { // a crash interrupted the call
		r.State = Unknown
	}
	ms := now.UnixMilli()
	switch {
	case r.NotBefore > ms && r.NotBefore-ms <= longestWait.Milliseconds():
		return r, []Effect{Wait{Until: r.NotBefore}} // a longer wait means that the clock was set back
	case r.State == Unknown:
		return r, []Effect{Search{}}
	case ms >= r.ExpiresAt:
		r.State, r.Reason = Expired, "It was too old to be sent."
	case r.Attempts-r.Excused >= MaxAttempts:
		r.State = Failed
		if r.Reason == "" {
			r.Reason = "It could not be sent in many attempts."
		}
	case in.Unwanted:
		r.Withdrawn = true
	default:
		r.State, r.SendingAt = Sending, ms
		r.Attempts++
		return r, []Effect{Call{}}
	}
	return conclude(r, surface.Message{})
}

func decideCalled(r Row, in Called, now time.Time) Row {
	if in.Err == nil {
		return sent(r, in.Message)
	}
	switch fault.KindOf(in.Err) {
	case fault.RateLimited, fault.Unavailable, fault.Unauthenticated:
		r.State = Planned
		r.Excused++
	case fault.Timeout: // the message may have been created
		r.State = Unknown
		r.Excused++
	case fault.Invalid, fault.Denied, fault.NotFound, fault.TooLarge, fault.Gone, fault.Conflict:
		r.State, r.Reason = Failed, fault.ToWire(in.Err).Message
		return r
	default: // the message may have been created, and the error is ours
		r.State = Unknown
	}
	r.Reason = fault.ToWire(in.Err).Message
	wait := max(backoff(r.Attempts), min(fault.RetryAfterOf(in.Err), longestWait))
	r.NotBefore = now.Add(wait).UnixMilli()
	return r
}

func decideFound(r Row, in Found, now time.Time) Row {
	switch ms := now.UnixMilli(); {
	case in.Err != nil:
		switch fault.KindOf(in.Err) {
		case fault.Denied, fault.NotFound:
			r.State, r.Reason = Failed, fault.ToWire(in.Err).Message
		default:
			r.NotBefore = now.Add(backoff(r.Attempts)).UnixMilli()
			if ms >= r.ExpiresAt+searchTTL.Milliseconds() {
				r.State, r.Unsure, r.Reason = Expired, true, "Whether it was sent could not be found out in time."
			}
		}
	case in.Found:
		return sent(r, in.Message)
	case ms < r.SendingAt+settleTime.Milliseconds():
		r.SendingAt = min(r.SendingAt, ms) // the clock may have been set back
		r.NotBefore = r.SendingAt + settleTime.Milliseconds()
	default:
		r.State, r.NotBefore = Planned, 0
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
