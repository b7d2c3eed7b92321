package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// maxDebounces bounds how long events that never pause can hold a rule back:
// so many times its debounce.
const maxDebounces = 10

// act does what a rule that is no function is for, and commits the event with
// it: a crash in between does both again or neither. It does not wait for the
// disk: the event is on it, and what a power cut takes comes of it again.
func (s *Service) act(ctx context.Context, d bus.Delivery, r Rule, e event.EnvEvent) error {
	ctx = event.WithTraceParent(ctx, d.Headers[event.HeaderTraceParent])
	return s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		handled, err := s.o.Records.Handled(tx, e.ID)
		if err != nil {
			return err
		}
		if !handled {
			if err := s.take(ctx, tx, r, e); err != nil {
				return err
			}
		}
		return d.Ack(tx)
	})
}

// take decides about an event that just came.
func (s *Service) take(ctx context.Context, tx *db.Tx, r Rule, e event.EnvEvent) error {
	sessionID, err := s.target(tx, r, e)
	if fault.KindOf(err) == fault.Conflict {
		called, _ := named(r, e) // it was found once already
		s.warn(ctx, "an event for the agent names a session by a title that several have", e, called, "rule", r.Name, "session", called, "error", err)
		return s.note(tx, r, e, "", OutcomeNoSession)
	}
	if err != nil {
		return err
	}
	depth, err := s.DepthOf(tx, e)
	if err != nil {
		return err
	}
	switch {
	case r.Drop:
		return s.note(tx, r, e, sessionID, OutcomeDropped)
	case tooDeep(depth):
		s.o.Logger.WarnContext(ctx, "a chain of events ends here: too many caused each other", "rule", r.Name, "event_id", e.ID, "depth", depth)
		return s.note(tx, r, withDepth(e, depth), sessionID, OutcomeDepth)
	case r.Debounce > 0:
		return s.hold(tx, r, withDepth(e, depth), sessionID)
	}
	return s.perform(ctx, tx, r, withDepth(e, depth), sessionID)
}

// hold lets the event wait for the next one, in place of the one before.
func (s *Service) hold(tx *db.Tx, r Rule, e event.EnvEvent, sessionID string) error {
	now := tx.Now()
	w, waits, err := s.o.Records.Waiting(tx, r.Name, sessionID)
	if err != nil {
		return err
	}
	if waits {
		if w.Event.ID == e.ID {
			return nil
		}
		if err := s.note(tx, r, w.Event, sessionID, OutcomeMerged); err != nil {
			return err
		}
	} else {
		w = Wait{Rule: r.Name, SessionID: sessionID, First: now.UnixMilli()}
	}
	w.Event, w.First = e, min(w.First, now.UnixMilli()) // the clock may have been set back
	w.Due = min(now.Add(r.Debounce).UnixMilli(), w.First+maxDebounces*r.Debounce.Milliseconds())
	tx.AfterCommit(s.alarm)
	return s.o.Records.PutWait(tx, w)
}

// perform does it, within the limits of the rule.
func (s *Service) perform(ctx context.Context, tx *db.Tx, r Rule, e event.EnvEvent, sessionID string) error {
	now := tx.Now()
	if r.Rate.Runs > 0 {
		// What a clock ran that was far ahead, and was set back, holds nothing up.
		recent, err := s.o.Records.RunsWithin(tx, r.Name, sessionID, now.Add(-r.Rate.Per), now.Add(r.Rate.Per), false)
		if err != nil {
			return err
		}
		if r.Rate.Over(recent) {
			return s.note(tx, r, e, sessionID, OutcomeRate)
		}
	}
	run := Run{Rule: r.Name, EventID: e.ID, Type: e.Type, SessionID: sessionID, Depth: depthOf(e), At: now.UnixMilli()}
	if affords, err := s.affords(ctx, tx, r, run); err != nil || !affords {
		return err
	}
	if r.DryRun {
		return s.note(tx, r, e, sessionID, OutcomeDryRun)
	}
	if r.Publish != nil {
		next, err := r.Publish(e)
		if err != nil {
			return bus.Permanent(fmt.Errorf("make event: %w", err))
		}
		next.Metadata.TriggerSessionID = sessionID
		if _, err := PublishTraced(tx, s.o.Inbox, withDepth(next, run.Depth+1), event.TraceParent(ctx)); err != nil {
			return err
		}
		run.Outcome = OutcomePublished
		return s.record(tx, run)
	}
	client, known, err := s.client(tx, sessionID)
	if err != nil {
		return err
	}
	if !known {
		called, _ := named(r, e) // it was found once already
		s.warn(ctx, "an event for the agent names no session that exists", e, called, "rule", r.Name, "session", called)
		return s.note(tx, r, e, sessionID, OutcomeNoSession)
	}
	agent := *r.Agent
	agent.Alone, agent.File = r.Budget.metered(), s.keepPayload(ctx, e)
	command, err := agent.Handle(r.Name, e, sessionID, client)
	if err != nil {
		return bus.Permanent(err)
	}
	if trace := event.TraceParent(ctx); trace != "" {
		command.Headers = command.Headers.With(event.HeaderTraceParent, trace)
	}
	if err := tx.Publish(command); err != nil {
		return fmt.Errorf("publish event for the runner: %w", err)
	}
	run.Outcome, run.MessageID, run.RequestID = OutcomeAgent, messageID(e.ID), RequestID(sessionID, e.ID)
	if err := s.o.Records.KeepEvent(tx, sessionID, e); err != nil {
		return err
	}
	return s.record(tx, run)
}

// affords reports whether the budget of a rule allows another run; one that it
// does not allow is noted, and people are told once.
func (s *Service) affords(ctx context.Context, tx *db.Tx, r Rule, run Run) (bool, error) {
	if r.Budget == (Budget{}) {
		return true, nil
	}
	used, err := s.usedOn(tx, r, run.SessionID, dayOf(tx.Now()))
	if err != nil {
		return false, err
	}
	reached := r.Budget.Over(used)
	if reached == nil {
		return true, nil
	}
	if err := s.refuse(tx, run, OutcomeBudget); err != nil {
		return false, err
	}
	_, err = s.stopped(ctx, tx, r, run.SessionID, "", *reached)
	return false, err
}

func (s *Service) record(tx *db.Tx, run Run) error {
	if err := s.o.Records.AddRun(tx, run); err != nil {
		return err
	}
	return s.o.Records.CountOutcome(tx, run.Rule, run.SessionID, run.Outcome, tx.Now())
}

// usedOn is what a rule has used in a session on a day, as far as
// its budget bounds it: to sum up what requests cost takes longer than to count.
func (s *Service) usedOn(q db.Queryer, r Rule, sessionID string, day time.Time) (used Budget, err error) {
	if r.Budget.metered() {
		if used, err = s.o.Records.SpentBy(q, r.Name, sessionID, day); err != nil {
			return used, err
		}
	}
	if r.Budget.Runs > 0 {
		used.Runs, err = s.o.Records.RunsWithin(q, r.Name, sessionID, day.Add(-time.Millisecond), day.Add(24*time.Hour-time.Millisecond), true)
	}
	return used, err
}

// keepPayload writes a payload that is too long for a message to a file of the
// workspace, where the agent's own tools reach it. Without the file there is
// still get_event_info.
func (s *Service) keepPayload(ctx context.Context, e event.EnvEvent) (file string) {
	if s.o.Workspace == "" || len(e.Payload) <= maxShown {
		return ""
	}
	file, err := tool.Keep(s.o.Workspace, "event-"+digest(e.ID), e.Payload)
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the payload of an event could not be written to the workspace", "event_id", e.ID, "error", err)
		return ""
	}
	return file
}

// note keeps that the rule matched the event and that nothing came of it.
func (s *Service) note(tx *db.Tx, r Rule, e event.EnvEvent, sessionID, outcome string) error {
	return s.refuse(tx, Run{Rule: r.Name, EventID: e.ID, Type: e.Type, SessionID: sessionID, Depth: depthOf(e)}, outcome)
}

func (s *Service) refuse(tx *db.Tx, run Run, outcome string) error {
	run.Outcome, run.At = outcome, tx.Now().UnixMilli()
	if err := s.o.Records.AddRefusal(tx, run); err != nil {
		return err
	}
	return s.o.Records.CountOutcome(tx, run.Rule, run.SessionID, outcome, tx.Now())
}

func dayOf(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// DepthOf is the place of an event in a chain of events that cause each other:
// what a rule counted, or one more than that of the event that led to the request
// whose work caused it.
func (s *Service) DepthOf(q db.Queryer, e event.EnvEvent) (int, error) {
	depth := depthOf(e)
	var request string
	if raw, ok := e.Metadata.Extra[event.MetadataRequest]; ok && json.Unmarshal(raw, &request) == nil && request != "" {
		before, err := s.o.Records.DepthOf(q, request)
		if err != nil {
			return 0, err
		}
		if before > 0 {
			depth = max(depth, before+1)
		}
	}
	return max(depth, 1), nil
}

func depthOf(e event.EnvEvent) int {
	n, err := strconv.Atoi(string(e.Metadata.Extra[depthKey]))
	if err != nil || n < 0 || n > 2*event.MaxDepth {
		return 0 // it is not a count of ours
	}
	return n
}

// waitLook is how often what waits is looked at: it bounds what a clock that was
// set back can hold up.
const waitLook = time.Minute

// waits handles what a debounce held back when it is due.
func (s *Service) waits(ctx context.Context) error {
	for {
		pause, err := s.due(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "events that a rule held back could not be handled", "error", err)
			pause = time.Second
		}
		timer := time.NewTimer(pause)
		due := timer.C
		if pause == 0 { // nothing waits
			timer.Stop()
			due = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.rung:
			timer.Stop()
		case <-due:
		}
	}
}

// alarm wakes waits; it never blocks.
func (s *Service) alarm() {
	select {
	case s.rung <- struct{}{}:
	default:
	}
}

// due handles all that is due and returns how long the next one takes, zero
// when nothing waits.
func (s *Service) due(ctx context.Context) (pause time.Duration, err error) {
	for more := true; more; {
		var w Wait
		err = s.o.DB.Update(ctx, func(tx *db.Tx) (err error) {
			ahead, any, err := s.o.Records.WaitAhead(tx, tx.Now())
			if err != nil {
				return err
			}
			if any { // the clock was set back: it begins now
				now := tx.Now().UnixMilli()
				ahead.First, ahead.Due = now, now+ahead.Due-ahead.First
				return s.o.Records.PutWait(tx, ahead)
			}
			w, any, err = s.o.Records.NextWait(tx)
			left := time.UnixMilli(w.Due).Sub(tx.Now())
			if err != nil || !any {
				more, pause = false, 0
				return err
			}
			if left > 0 {
				more, pause = false, min(left, waitLook)
				return nil
			}
			if err := s.o.Records.DropWait(tx, w.Rule, w.SessionID); err != nil {
				return err
			}
			return s.release(ctx, tx, w)
		})
		if err != nil && w.Rule != "" && ctx.Err() == nil {
			err = s.putOff(ctx, w, err)
		}
		if err != nil {
			return 0, err
		}
	}
	return pause, nil
}

// putOff lets what could not be handled wait a little longer, so that it does
// not hold up the others. By now a newer event may wait in its place.
func (s *Service) putOff(ctx context.Context, failed Wait, cause error) error {
	s.o.Logger.ErrorContext(ctx, "an event that a rule held back could not be handled; it waits longer", "rule", failed.Rule, "event_id", failed.Event.ID, "error", cause)
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		w, waits, err := s.o.Records.Waiting(tx, failed.Rule, failed.SessionID)
		if err != nil || !waits {
			return err
		}
		w.Due = max(w.Due, tx.Now().Add(waitLook).UnixMilli())
		return s.o.Records.PutWait(tx, w)
	})
}

// release performs what waited. What cannot be done now cannot be done later
// either: it is counted, so that it does not hold up the others. So is what a
// changed configuration does not want any more.
func (s *Service) release(ctx context.Context, tx *db.Tx, w Wait) error {
	rules := s.Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == w.Rule && r.Enabled && !r.Drop && r.Handler == nil })
	if i < 0 {
		s.o.Logger.WarnContext(ctx, "an event that a rule held back is dropped: the rule is gone, off or drops by now", "rule", w.Rule, "event_id", w.Event.ID)
		return s.note(tx, Rule{Name: w.Rule}, w.Event, w.SessionID, OutcomeDropped)
	}
	r := rules[i]
	err := s.perform(ctx, tx, r, w.Event, w.SessionID)
	if bus.IsPermanent(err) {
		s.o.Logger.ErrorContext(ctx, "an event that a rule held back cannot be handled", "rule", r.Name, "event_id", w.Event.ID, "error", err)
		return s.note(tx, r, w.Event, w.SessionID, OutcomeFailed)
	}
	return err
}
