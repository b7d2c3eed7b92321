package session

import (
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// maxCharged is how many stops at the same step a request survives that are charged to it.
const maxCharged = 3

// Turn is when a request is resumed after an unclean stop.
type Turn string

// The turns.
const (
	AtOnce Turn = ""
	// Waiting requests have no run: others are resumed before them.
	Waiting Turn = "waiting"
	// OnTrial requests run. If the process stops now, it is charged to them.
	OnTrial Turn = "trial"
)

// Recovery is what is known of an active request after unclean stops. A finished
// model call and a clean stop clear it.
type Recovery struct {
	Turn Turn `json:"turn,omitempty"`
	// Stops counts the unclean stops while the request ran.
	Stops int `json:"stops,omitempty"`
	// Charged counts those of them that it caused, as far as is known.
	Charged int `json:"charged,omitempty"`
	// UptimeMS is how long the process may have run, in milliseconds, when the
	// last trial was over.
	UptimeMS int64 `json:"uptimeMs,omitempty"`
}

func (d *decision) recovered(in Recovered) {
	a := d.Active
	switch {
	case a == nil:
		d.startNext(in.NoSlot)
		return
	case a.Paused != nil: // the pause outlives the restart
		return
	case a.Phase == Closing:
		d.end(ending{State: event.StateCancelled, Detail: a.Reason}, in.Unusable)
		d.startNext(in.NoSlot)
		return
	case a.givesUp(in):
		d.end(ending{event.StateFailed, gaveUpText, fault.Internal}, in.Unusable)
		d.startNext(in.NoSlot)
		return
	}
	r := &a.Recovery
	switch {
	case a.Drained:
		a.Drained, *r = false, Recovery{}
	case in.Culprit:
		r.Stops++
		r.Charged++
	case r.Turn == Waiting: // the process stopped without it, so it is not the cause
		r.Charged = 0
	default:
		r.Stops++
	}
	r.Turn = in.Turn
	if in.Turn == OnTrial {
		r.UptimeMS = in.Uptime.Milliseconds()
	}
	if in.Turn != Waiting {
		d.resume()
	}
}

// givesUp reports whether the request has stopped the process too often.
func (a *Active) givesUp(in Recovered) bool { return in.Culprit && a.Recovery.Charged >= maxCharged }

// endsOn reports whether an input of recovery ends the request instead of resuming it.
func (a *Active) endsOn(in Input) bool {
	recovered, first := in.(Recovered)
	return a.Phase == Closing || first && a.givesUp(recovered)
}

func (d *decision) turnCame(in TurnCame) {
	switch a := d.Active; {
	case !d.isActive(in.RequestID) || a.Recovery.Turn != Waiting:
	case a.Phase == Closing:
		d.end(ending{State: event.StateCancelled, Detail: a.Reason}, in.Unusable)
		d.startNext(in.NoSlot)
	default:
		a.Recovery.Turn, a.Recovery.UptimeMS = OnTrial, in.Uptime.Milliseconds()
		d.resume()
	}
}

// trial is how long the trial of the request lasts. It grows with each stop: a request
// that stops the process late is found, too.
func (r Recovery) trial(base time.Duration) time.Duration {
	return min(base<<min(max(r.Stops-1, 0), 10), maxTrial)
}
