package session

import (
	"time"

	"lilac/internal/foundation/order"
)

// After an unclean stop (a crash, kill -9, a power cut), any of the requests that ran may
// be the cause. A request that is the cause stops the process again whenever it is
// resumed, so it must end at some time, and no other request may end with it:
//
//   - After the first stop, all are resumed at once, and nothing is charged to any of them
//     unless it ran alone.
//   - If the process stops again before they finish a model call, they are resumed one by
//     one. Each is on trial for a while, alone. The stop is charged to the request that is
//     on trial.
//   - A request that is charged waits. The others are resumed at once, because the cause is
//     known. Its next trial begins when the process has run without it for twice as long as
//     it last ran with it. If the process stops earlier, the request was not the cause, and
//     the charge is dropped.
//   - After maxCharged charges, the next one ends the request.
//
// So a loop of kills from outside, however fast, ends no request that is not alone each
// time at the same moment of its trial.

const (
	// DefaultTrial is how long the first trial of a request lasts.
	DefaultTrial = 3 * time.Second
	// maxTrial and maxWithout bound a trial and the time without a charged request.
	// Together they stay below the five minutes after which surfaces give up on a
	// silent request.
	maxTrial   = time.Minute
	maxWithout = 3 * time.Minute
)

// unfinished is a session with work that the process found at its start.
type unfinished struct {
	sessionID string
	state     State
}

// recovery is how a session's work is resumed.
type recovery struct {
	sessionID, requestID string
	culprit              bool
	turn                 Turn
	// after is the earliest time of the turn of a request that waits, since the start of
	// the process, trial the length of its trial.
	after, trial time.Duration
}

// planRecovery decides how unfinished work is resumed after a start of the process. The
// turns of the requests that wait are in the order of the result.
func planRecovery(found []unfinished, trial time.Duration) []recovery {
	onTrial, ran, suspects := 0, 0, 0
	for _, u := range found {
		if !u.ranAtStop() {
			continue
		}
		ran++
		switch r := u.state.Active.Recovery; {
		case r.Turn == OnTrial:
			onTrial++
		case r.Stops > 0:
			suspects++
		}
	}
	var out, later []recovery
	for _, u := range found {
		p := recovery{sessionID: u.sessionID}
		if a := u.state.Active; u.ranAtStop() {
			p.requestID = a.RequestID
			next := Recovery{Stops: a.Recovery.Stops + 1}
			p.trial = next.trial(trial)
			switch {
			case a.Recovery.Turn == OnTrial:
				p.culprit, p.turn = true, Waiting
				p.after = min(2*time.Duration(a.Recovery.UptimeMS)*time.Millisecond, maxWithout)
				if a.givesUp(Recovered{Culprit: true}) {
					p.turn = AtOnce
				}
			case onTrial > 0: // the culprit is another
			case ran == 1:
				p.culprit, p.turn = a.Recovery.Stops == 0, OnTrial
			case a.Recovery.Stops > 0 && suspects == 1:
				p.turn = OnTrial
			case a.Recovery.Stops > 0:
				p.turn, p.after = Waiting, trial
			}
		}
		if p.turn == Waiting {
			later = append(later, p)
		} else {
			out = append(out, p)
		}
	}
	order.By(later, func(a, b recovery) int { return int(a.after - b.after) })
	return append(out, later...)
}

// ranAtStop reports whether the session has a request that ran when the process stopped
// uncleanly.
func (u unfinished) ranAtStop() bool {
	a := u.state.Active
	return a != nil && a.Paused == nil && a.Phase == Accepting && !a.Drained && a.Recovery.Turn != Waiting
}
