package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

const (
	// matchTime bounds how long an event holds up those behind it while the tasks
	// that wait look whether it is theirs.
	matchTime = time.Second
	// minMatchTime is what each of them has, as long as there is time. It takes most
	// of them microseconds.
	minMatchTime = 5 * time.Millisecond
)

var errNoTime = errors.New("the conditions of others took the time of this event")

// Observe tells of an event of the environment. Telling of it again changes
// nothing.
func (s *Service) Observe(ctx context.Context, e event.EnvEvent) error {
	if e.Type == event.UserQuery || e.Type == event.UserStop {
		return nil // what people say to others is nobody's to wait for
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
		if s.o.Causes != nil {
			if depth, err = s.o.Causes.DepthOf(tx, e); err != nil {
				return fmt.Errorf("look at the chain of events: %w", err)
			}
		}
		if depth > event.MaxDepth {
			s.o.Logger.WarnContext(ctx, "a chain of events ends here: too many caused each other, and a workflow goes on waiting", "event_id", e.ID)
			return nil
		}
		if _, seen, err := s.o.Inbox.Seen(tx, Group+"-env", e.ID, nil); err != nil || seen {
			return err
		}
		for id, tasks := range matching {
			if _, err := s.apply(tx, id, Occurred{TaskIDs: tasks, Event: bounded(e), Depth: depth}); err != nil {
				return err
			}
		}
		return nil
	})
}

// waiter is a task that waits for events.
type waiter struct {
	workflow, task string
	wait           Wait
}

// waiting are the tasks that may wait for the event: one of the session that the
// task names, or one of no session at all.
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

// matching are the tasks, by their workflow, that wait for the event. A condition
// that takes too long takes its share of the time and not that of the others; one
// that could not be decided does not hold.
func (s *Service) matching(ctx context.Context, waiting []waiter, e event.EnvEvent) map[string][]string {
	matching := map[string][]string{}
	match, end := s.o.NewMatcher(e), time.Now().Add(matchTime)
	undecided, why := waiting, error(nil)
	// A busy machine can take longer than a share for nothing at all, hence again.
	for range 2 {
		undecided, why = matchAll(ctx, undecided, match, end, func(w waiter) {
			matching[w.workflow] = append(matching[w.workflow], w.task)
		})
	}
	if len(undecided) > 0 {
		s.o.Logger.WarnContext(ctx, "workflows could not decide about an event",
			"workflow_id", undecided[0].workflow, "task_id", undecided[0].task, "error", why, "event_id", e.ID, "tasks", len(undecided))
	}
	return matching
}

// match tells which tasks match, and returns those that could not be asked before
// end, with the reason of the first. Each has its share of the time.
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

// bounded is an event as it is kept in a result: a payload that is too large is
// only named.
func bounded(e event.EnvEvent) event.EnvEvent {
	if len(e.Payload) > maxMessage {
		e.Payload = encode(fmt.Sprintf("(%d bytes of payload, more than is kept)", len(e.Payload)))
	}
	return e
}
