package environment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lilac/internal/core/kernel"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// key identifies a [State].
type key struct{ rule, sessionID string }

func (s *Service) core(ctx context.Context) kernel.Core[key, State, Input, Effect] {
	return kernel.Core[key, State, Input, Effect]{
		Decide: Decide,
		Save:   s.save,
		Carry:  func(tx *db.Tx, _ key, _ State, e Effect) error { return s.carryOut(ctx, tx, e) },
		Wake: func(_ key, before, after State) {
			if after.Hold != nil && before.Hold != after.Hold {
				s.wake()
			}
		},
	}
}

// act makes the decision about a delivered event and commits the delivery with it:
// after a crash both happen again or neither. It does not wait for the disk: the
// bus has the event on disk, and delivers it again if a power failure undoes this.
// failed are the rules before it whose conditions failed.
func (s *Service) act(ctx context.Context, d bus.Delivery, r Rule, e event.EnvEvent, failed []MatchResult) error {
	ctx = event.WithTraceParent(ctx, d.Headers[event.HeaderTraceParent])
	return s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		handled, err := s.o.Runs.Handled(tx, e.ID)
		if err != nil {
			return err
		}
		if !handled {
			if err := s.arrive(ctx, tx, r, e); err != nil {
				return err
			}
			if err := s.keepFailures(tx, e, failed); err != nil {
				return err
			}
		}
		return d.Ack(tx)
	})
}

// recordFailures records an event that no rule handles because conditions failed.
func (s *Service) recordFailures(ctx context.Context, d bus.Delivery, e event.EnvEvent, failed []MatchResult) error {
	return s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		if err := s.keepFailures(tx, e, failed); err != nil {
			return err
		}
		return d.Ack(tx)
	})
}

// keepFailures keeps for each rule that its condition failed.
func (s *Service) keepFailures(tx *db.Tx, e event.EnvEvent, failed []MatchResult) error {
	if s.o.Runs == nil {
		return nil
	}
	for _, f := range failed {
		run := newRun(Rule{Name: f.Rule}, e, e.Metadata.TriggerSessionID, tx.Now()).withOutcome(OutcomeFailed)
		run.Error = text.Truncate(f.Error, maxRunError)
		if err := s.record(tx, run); err != nil {
			return fmt.Errorf("record failed condition: %w", err)
		}
	}
	return nil
}

// maxRunError bounds the error of a run, in bytes.
const maxRunError = 1000

func (s *Service) arrive(ctx context.Context, tx *db.Tx, r Rule, e event.EnvEvent) error {
	in := Arrived{Rule: r, Event: e}
	var err error
	in.SessionID, err = s.target(tx, r, e)
	if fault.KindOf(err) == fault.Conflict {
		in.Ambiguous = true
		s.warn(ctx, "cannot choose the session for an event: several have the title", e, sessionName(r, e), "rule", r.Name, "session", sessionName(r, e), "error", err)
	} else if err != nil {
		return err
	} else if in.Depth, err = s.DepthOf(tx, e); err != nil {
		return err
	}
	state, err := s.load(tx, in)
	if err != nil {
		return err
	}
	_, _, err = s.core(ctx).ApplyTo(tx, key{r.Name, in.SessionID}, state, in)
	return err
}

// load returns the part of the state that the decision needs.
func (s *Service) load(tx *db.Tx, in Arrived) (state State, err error) {
	switch {
	case in.Ambiguous || !in.Rule.limited():
		return State{}, nil
	case in.Rule.Debounce > 0:
		h, held, err := s.o.Holds.Waiting(tx, in.Rule.Name, in.SessionID)
		if held {
			state.Hold = &h
		}
		return state, err
	}
	return s.usage(tx, in.Rule, in.SessionID)
}

// usage returns the state of a rule in a session as far as its limits need it.
func (s *Service) usage(tx *db.Tx, r Rule, sessionID string) (state State, err error) {
	now := tx.Now()
	if r.Rate.Runs > 0 {
		// The upper bound leaves out runs that a clock far ahead has recorded.
		state.Recent, err = s.o.Runs.RunsWithin(tx, r.Name, sessionID, now.Add(-r.Rate.Per), now.Add(r.Rate.Per), false)
		if err != nil || r.Rate.Reached(state.Recent) {
			return state, err // to sum up the usage takes longer than to count
		}
	}
	state.Used, err = s.usedOn(tx, r, sessionID, dayOf(now))
	return state, err
}

// usedOn returns the usage of a rule in a session on a day, in the units that its
// budget limits.
func (s *Service) usedOn(q db.Queryer, r Rule, sessionID string, day time.Time) (used Budget, err error) {
	if r.Budget.metered() {
		if used, err = s.o.Runs.SpentBy(q, r.Name, sessionID, day); err != nil {
			return used, err
		}
	}
	if r.Budget.Runs > 0 {
		used.Runs, err = s.o.Runs.RunsWithin(q, r.Name, sessionID, day.Add(-time.Millisecond), day.Add(24*time.Hour-time.Millisecond), true)
	}
	return used, err
}

func dayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

func (s *Service) save(tx *db.Tx, k key, before, after State) error {
	switch {
	case before.Hold == after.Hold:
		return nil
	case after.Hold == nil:
		return s.o.Holds.DropWait(tx, k.rule, k.sessionID)
	}
	return s.o.Holds.PutWait(tx, *after.Hold)
}

func (s *Service) carryOut(ctx context.Context, tx *db.Tx, e Effect) error {
	switch e := e.(type) {
	case Perform:
		return s.perform(ctx, tx, e)
	case Record:
		if e.Run.Outcome == OutcomeDepth {
			s.o.Logger.WarnContext(ctx, "a chain of events ends here: too many caused each other", "rule", e.Run.Rule, "event_id", e.Run.EventID, "depth", e.Run.Depth)
		}
		return s.record(tx, e.Run)
	case AnnounceStop:
		_, err := s.announceStop(ctx, tx, e.Rule, e.SessionID, "", e.Exhausted)
		return err
	}
	return fmt.Errorf("unknown effect %T", e)
}

func (s *Service) perform(ctx context.Context, tx *db.Tx, p Perform) error {
	run, err := p.Rule.Action.Do(ctx, Call{Rule: p.Rule, Event: p.Event, SessionID: p.Run.SessionID, Run: p.Run, Tx: tx, service: s})
	switch {
	case p.WasHeld && bus.IsPermanent(err):
		s.o.Logger.ErrorContext(ctx, "cannot handle an event that a rule held back", "rule", p.Rule.Name, "event_id", p.Event.ID, "error", err)
		run = p.Run.withOutcome(OutcomeFailed)
		run.Error = text.Truncate(fault.Plain(err), maxRunError)
	case err != nil:
		return err
	case run.Outcome == OutcomeNoSession:
		name := sessionName(p.Rule, p.Event)
		s.warn(ctx, "an event for the agent names no session that exists", p.Event, name, "rule", p.Rule.Name, "session", name)
	}
	return s.record(tx, run)
}

// record keeps a run and counts its outcome.
func (s *Service) record(tx *db.Tx, run Run) error {
	keep := s.o.Runs.AddRefusal
	if run.acted() {
		keep = s.o.Runs.AddRun
	}
	if err := keep(tx, run); err != nil {
		return err
	}
	return s.o.Runs.CountOutcome(tx, run.Rule, run.SessionID, run.Outcome, tx.Now())
}

// rule returns the rule with a name, or the zero Rule.
func (s *Service) rule(name string) (Rule, bool) {
	rules := s.Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}
