package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

const (
	// matchTime bounds how long all waiting tasks together may match one event, because
	// the events after it wait.
	matchTime = time.Second
	// minMatchTime is the least time for each task. Most conditions take
	// microseconds.
	minMatchTime = 5 * time.Millisecond
)

var errNoTime = errors.New("the time limit of the event was used up by other conditions")

// Observe gives an environment event to the workflows that wait for it. A repeated
// event changes nothing.
func (s *Service) Observe(ctx context.Context, e event.EnvEvent) error {
	if e.Type == event.UserQuery || e.Type == event.UserStop {
		return nil // nothing may wait for messages between people
	}
	if some, err := s.someWait(ctx); err != nil || !some {
		return err
	}
	waiting, err := s.waiting(ctx, e)
	if err != nil {
		return err
	}
	matching := s.matching(ctx, waiting, e)
	if ctx.Err() != nil || len(matching) == 0 {
		return ctx.Err()
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		depth := 0
		var granted grant.Grant
		if s.o.Causes != nil {
			if granted, err = s.o.Causes.GrantOf(tx, e); err != nil {
				return fmt.Errorf("read what requests of an event may use: %w", err)
			}
			if depth, err = s.o.Causes.DepthOf(tx, e); err != nil {
				return fmt.Errorf("read the depth of an event: %w", err)
			}
		}
		if depth > event.MaxDepth {
			s.o.Logger.WarnContext(ctx, "a chain of events ends here: too many caused each other; the workflow keeps waiting", "event_id", e.ID)
			return nil
		}
		if _, seen, err := s.o.Inbox.Seen(tx, Group+"-env", e.ID, nil); err != nil || seen {
			return err
		}
		for id, tasks := range matching {
			if _, err := s.apply(tx, id, Occurred{TaskIDs: tasks, Event: bounded(e), Depth: depth, Grant: granted}); err != nil {
				return err
			}
		}
		return nil
	})
}

// eventWaits says whether a workflow waited for an event when a number of workflows had been
// saved.
type eventWaits struct {
	saves int64
	some  bool
}

// someWait reports whether a workflow may wait for an event. Mostly none does, and then an
// event costs no read. Only a transaction can tell: a workflow is counted before it is
// committed, and in a later transaction it is visible or undone.
func (s *Service) someWait(ctx context.Context) (some bool, err error) {
	if w := s.eventWaits.Load(); w != nil && w.saves == s.saves.Load() {
		return w.some, nil
	}
	err = s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		saves := s.saves.Load()
		ids, err := s.o.Waits.WaitingForEvents(tx, "")
		if err != nil {
			return err
		}
		some = len(ids) > 0
		tx.AfterCommit(func() { s.eventWaits.Store(&eventWaits{saves, len(ids) > 0}) })
		return nil
	})
	return some, err
}

// waiter is a task that waits for events.
type waiter struct {
	workflow, task string
	wait           Wait
}

// waiting returns the tasks that may wait for the event: it has the session that the
// task names, or none.
func (s *Service) waiting(ctx context.Context, e event.EnvEvent) (out []waiter, err error) {
	at := e.Metadata.TriggerSessionID
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		ids, err := s.o.Waits.WaitingForEvents(q, at)
		if err != nil {
			return err
		}
		for _, id := range ids {
			w, err := s.o.Table.Workflow(q, id)
			if db.IsDamaged(err) {
				s.logDamaged(id, err)
				continue
			}
			if err != nil {
				return err
			}
			for _, t := range w.Tasks {
				if w.isWaiting(t) && t.Wait.Kind == ForEvent && (at == "" || at == t.Wait.SessionID) {
					out = append(out, waiter{id, t.ID, t.Wait})
				}
			}
		}
		return nil
	})
	return out, err
}

// matching returns the tasks that wait for the event, by workflow. Each condition has a
// share of the time, so a slow one cannot use up the time of the others. A condition
// that could not be evaluated does not hold.
func (s *Service) matching(ctx context.Context, waiting []waiter, e event.EnvEvent) map[string][]string {
	matching := map[string][]string{}
	match, end := s.o.NewMatcher(e), time.Now().Add(matchTime)
	undecided, why := waiting, error(nil)
	// On a busy machine, even a trivial condition can exceed its share, so retry once.
	for range 2 {
		undecided, why = matchAll(ctx, undecided, match, end, func(w waiter) {
			matching[w.workflow] = append(matching[w.workflow], w.task)
		})
	}
	if len(undecided) > 0 {
		s.o.Logger.WarnContext(ctx, "cannot evaluate the conditions of workflows",
			"workflow_id", undecided[0].workflow, "task_id", undecided[0].task, "error", why, "event_id", e.ID, "tasks", len(undecided))
	}
	return matching
}

// matchAll calls matches for each task that matches. It returns the tasks whose
// condition could not be evaluated before end, and the error of the first.
func matchAll(ctx context.Context, waiting []waiter, match Matcher, end time.Time, matches func(waiter)) (undecided []waiter, why error) {
	for i, w := range waiting {
		holds, err := false, errNoTime
		if left := time.Until(end); left > 0 {
			share, cancel := context.WithTimeout(ctx, max(left/time.Duration(len(waiting)-i), minMatchTime))
			holds, err = match(share, w.wait.Types, w.wait.If)
			cancel()
		}
		switch {
		case err != nil:
			if undecided = append(undecided, w); why == nil {
				why = err
			}
		case holds:
			matches(w)
		}
	}
	return undecided, why
}

// bounded returns an event as a result keeps it: a large payload is replaced by its
// size.
func bounded(e event.EnvEvent) event.EnvEvent {
	if len(e.Payload) > maxMessage {
		e.Payload = encode(fmt.Sprintf("(%d bytes of payload, too large to keep)", len(e.Payload)))
	}
	return e
}
