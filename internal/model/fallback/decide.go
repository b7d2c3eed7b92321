package fallback

import (
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

const (
	// openAfter is the number of failures in a row that open a breaker. One failure says
	// little about the next call.
	openAfter = 3
	// minOpen and maxOpen bound how long failures keep a breaker open.
	minOpen = 30 * time.Second
	maxOpen = 5 * time.Minute
	// limitOpen is used for a rate limit without a stated wait.
	limitOpen = 15 * time.Second
	// refusedOpen is used for a refused key, account, or model, which only people can
	// change.
	refusedOpen = 10 * time.Minute
	// maxDemanded bounds a wait that a provider states.
	maxDemanded = 24 * time.Hour
	// probeTime is how long one call may test a breaker whose time is over, before another
	// call tests it.
	probeTime = 2 * time.Minute
)

// State is the state of a breaker. The zero value is closed.
//
//	closed ── wait demanded, refusal, or openAfter failures ──► open
//	open ──── its time is over ──► half open ── a call succeeds ──► closed
//	                                  └──── a call fails ──► open, for longer
type State struct {
	// Failures counts the failures since the last success.
	Failures int
	// OpenUntil is when the breaker may be tested. Demanded means that the provider asked
	// for this wait.
	OpenUntil time.Time
	Demanded  bool
	// ProbedAt is when a call began to test the breaker.
	ProbedAt time.Time
	// Reason says why the last call failed.
	Reason string
}

// Failure describes a failed call.
type Failure struct {
	Kind       fault.Kind
	Code       string
	RetryAfter time.Duration
	Reason     string
}

// Verdict says what follows from a failure.
type Verdict int

// The verdicts.
const (
	// Return means that another model would fail as well, or that the caller can repair
	// the request: a prompt that is too long, a refused image, the end of the context.
	Return Verdict = iota
	// NextKey means that the same model may work with another key.
	NextKey
	// NextModel means that another key would not help.
	NextModel
)

// Verdict returns what follows from the failure.
func (f Failure) Verdict() Verdict {
	switch {
	case f.Kind == fault.Cancelled || f.Code == llm.CodeContextLength || f.Code == llm.CodeMediaRefused:
		return Return
	case f.Kind == fault.RateLimited || f.Kind == fault.Denied || f.Kind == fault.Unauthenticated:
		return NextKey
	}
	return NextModel
}

// After returns the state after a failure.
func (s State) After(f Failure, now time.Time) State {
	if f.Verdict() == Return {
		return s
	}
	open := time.Duration(0)
	s.ProbedAt = time.Time{}
	switch {
	case f.RetryAfter > 0:
		open = min(f.RetryAfter, maxDemanded)
	case f.Kind == fault.RateLimited:
		open = limitOpen
	case f.Kind == fault.Denied || f.Kind == fault.Unauthenticated || f.Kind == fault.NotFound:
		open = refusedOpen
	case !f.Kind.Retryable():
		return s // the request was refused, which says nothing about the next one
	default:
		if s.Failures+1 >= openAfter {
			open = min(minOpen<<min(s.Failures+1-openAfter, 8), maxOpen)
		}
	}
	s.Failures++
	s.Reason = f.Reason
	if open > 0 {
		s.OpenUntil, s.Demanded = now.Add(open), f.RetryAfter > 0
	}
	return s
}

// waiting reports whether the provider asked for a wait that is not over.
func (s State) waiting(now time.Time) bool { return s.Demanded && s.OpenUntil.After(now) }

// available reports whether a call may be made without a reason to prefer others.
func (s State) available(now time.Time) bool {
	return !s.OpenUntil.After(now) && (s.ProbedAt.IsZero() || now.Sub(s.ProbedAt) >= probeTime)
}

// Pick returns the candidate to call: the current one if it is available, else the first
// that is, else one that only failed and may be tried again first. tried marks the
// candidates that failed already. If none is left, it returns -1, and how long to wait if
// the reason is a wait that a provider demanded.
func Pick(states []State, tried []bool, current int, now time.Time) (index int, wait time.Duration) {
	if current >= 0 && !tried[current] && states[current].available(now) {
		return current, 0
	}
	for i, s := range states {
		if !tried[i] && s.available(now) {
			return i, 0
		}
	}
	best := -1
	for i, s := range states {
		switch {
		case tried[i]:
		case s.waiting(now):
			if left := s.OpenUntil.Sub(now); wait == 0 || left < wait {
				wait = left
			}
		case best < 0 || s.OpenUntil.Before(states[best].OpenUntil):
			best = i
		}
	}
	if best >= 0 {
		return best, 0
	}
	return -1, wait
}
