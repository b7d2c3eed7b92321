package environment

import (
	"time"

	"lilac/internal/foundation/event"
)

// maxDebounces bounds how long events that never pause can hold a rule back: this
// many times its debounce.
const maxDebounces = 10

// retryHold is how long an event that could not be handled after its debounce
// waits for the next attempt. It is also the longest sleep while events are held
// back, so it bounds the delay that a clock which was set back can cause.
const retryHold = time.Minute

// Input is a fact that concerns a rule in one session.
type Input interface{ input() }

// Arrived reports an event that matched the rule.
type Arrived struct {
	Rule      Rule
	Event     event.EnvEvent
	SessionID string
	// Depth is the position of the event in its chain of causes, counted from 1.
	Depth int
	// Ambiguous reports that several sessions have the title that the rule names.
	Ambiguous bool
}

// HoldExpired reports that the debounce of the held event is over. InForce is
// false if the rule was removed or switched off meanwhile.
type HoldExpired struct {
	Rule    Rule
	InForce bool
}

// HoldFailed reports that the held event was due and could not be handled.
type HoldFailed struct{}

// ClockSetBack reports that the held event seems to come from the future.
type ClockSetBack struct{}

// Charged reports a request that a workflow wants to make on the budget of the
// rule. Rule is the zero Rule if it was removed: then nothing limits the request.
type Charged struct {
	Rule Rule
	Run  Run
}

func (Arrived) input()      {}
func (HoldExpired) input()  {}
func (HoldFailed) input()   {}
func (ClockSetBack) input() {}
func (Charged) input()      {}

// Effect is one thing to do in the transaction of a decision.
type Effect interface{ effect() }

// Perform performs the action of the rule on an event and records the run. After
// a debounce there is no delivery to reject, so a permanent failure is recorded.
type Perform struct {
	Rule    Rule
	Event   event.EnvEvent
	Run     Run
	WasHeld bool
}

// Record keeps a run, or an event about which the rule did nothing.
type Record struct{ Run Run }

// AnnounceStop tells the session once a day that the rule has used up its budget.
type AnnounceStop struct {
	Rule      Rule
	SessionID string
	Exhausted Exhausted
}

func (Perform) effect()      {}
func (Record) effect()       {}
func (AnnounceStop) effect() {}

// Decide decides what an input means for a rule in one session; see [State] for
// the transitions. It is pure.
func Decide(s State, in Input, now time.Time) (State, []Effect) {
	switch in := in.(type) {
	case Arrived:
		return arrived(s, in, now)
	case HoldExpired:
		return holdExpired(s, in, now)
	case HoldFailed:
		return s.postponed(func(h *Hold) { h.Due = max(h.Due, now.Add(retryHold).UnixMilli()) }), nil
	case ClockSetBack:
		return s.postponed(func(h *Hold) { h.First, h.Due = now.UnixMilli(), now.UnixMilli()+h.Due-h.First }), nil
	case Charged:
		return s, charged(s, in, now)
	}
	return s, nil
}

func arrived(s State, in Arrived, now time.Time) (State, []Effect) {
	run := newRun(in.Rule, in.Event, in.SessionID, now)
	if in.Ambiguous {
		return s, []Effect{Record{run.withOutcome(OutcomeNoSession)}}
	}
	if !in.Rule.limited() {
		return s, []Effect{Perform{Rule: in.Rule, Event: in.Event, Run: run}}
	}
	in.Event, run.Depth = withDepth(in.Event, in.Depth), in.Depth
	switch {
	case in.Depth > event.MaxDepth:
		return s, []Effect{Record{run.withOutcome(OutcomeDepth)}}
	case in.Rule.Debounce > 0:
		return hold(s, in, now)
	}
	return s, withinLimits(s, Perform{Rule: in.Rule, Event: in.Event, Run: run}, now)
}

// hold holds the event back in place of the one before.
func hold(s State, in Arrived, now time.Time) (State, []Effect) {
	next := Hold{Rule: in.Rule.Name, SessionID: in.SessionID, Event: in.Event, First: now.UnixMilli()}
	var effects []Effect
	if s.Hold != nil {
		if s.Hold.Event.ID == in.Event.ID {
			return s, nil // it is delivered again
		}
		effects = append(effects, Record{newRun(in.Rule, s.Hold.Event, in.SessionID, now).withOutcome(OutcomeMerged)})
		next.First = min(s.Hold.First, next.First) // the clock may have been set back
	}
	next.Due = min(now.Add(in.Rule.Debounce).UnixMilli(), next.First+maxDebounces*in.Rule.Debounce.Milliseconds())
	s.Hold = &next
	return s, effects
}

func holdExpired(s State, in HoldExpired, now time.Time) (State, []Effect) {
	if s.Hold == nil {
		return s, nil
	}
	held := *s.Hold
	s.Hold = nil
	run := newRun(in.Rule, held.Event, held.SessionID, now)
	if !in.InForce || !in.Rule.limited() {
		run.Rule = held.Rule
		return s, []Effect{Record{run.withOutcome(OutcomeDropped)}}
	}
	return s, withinLimits(s, Perform{Rule: in.Rule, Event: held.Event, Run: run, WasHeld: true}, now)
}

// withinLimits performs an action unless a limit of the rule forbids it.
func withinLimits(s State, p Perform, now time.Time) []Effect {
	if p.Rule.Rate.Reached(s.Recent) {
		return []Effect{Record{p.Run.withOutcome(OutcomeRate)}}
	}
	if exhausted := p.Rule.Budget.Exhausted(s.Used); exhausted != nil {
		return stop(p.Rule, p.Run, *exhausted, now)
	}
	if p.Rule.DryRun {
		return []Effect{Record{p.Run.withOutcome(OutcomeDryRun)}}
	}
	return []Effect{p}
}

func charged(s State, in Charged, now time.Time) []Effect {
	if exhausted := in.Rule.Budget.Exhausted(s.Used); exhausted != nil {
		return stop(in.Rule, in.Run, *exhausted, now)
	}
	in.Run.At = now.UnixMilli()
	return []Effect{Record{in.Run.withOutcome(OutcomeWorkflow)}}
}

func stop(r Rule, run Run, exhausted Exhausted, now time.Time) []Effect {
	run.At = now.UnixMilli()
	return []Effect{Record{run.withOutcome(OutcomeBudget)}, AnnounceStop{Rule: r, SessionID: run.SessionID, Exhausted: exhausted}}
}

// postponed changes the held event, if there is one.
func (s State) postponed(change func(*Hold)) State {
	if s.Hold == nil {
		return s
	}
	next := *s.Hold
	change(&next)
	s.Hold = &next
	return s
}

func newRun(r Rule, e event.EnvEvent, sessionID string, now time.Time) Run {
	return Run{Rule: r.Name, EventID: e.ID, Type: e.Type, SessionID: sessionID, Depth: depthOf(e), At: now.UnixMilli()}
}
