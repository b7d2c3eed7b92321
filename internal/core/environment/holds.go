package environment

import (
	"context"
	"time"

	"lilac/internal/engine/db"
)

// runHolds handles the events that debounces hold back when they are due, until
// ctx ends.
func (s *Service) runHolds(ctx context.Context) error {
	for {
		pause, err := s.handleDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "cannot handle the events that rules hold back", "error", err)
			pause = time.Second
		}
		timer := time.NewTimer(pause)
		due := timer.C
		if pause == 0 { // nothing is held back
			timer.Stop()
			due = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-s.wakeup:
			timer.Stop()
		case <-due:
		}
	}
}

// wake wakes runHolds; it never blocks.
func (s *Service) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default: // one wake-up is pending already
	}
}

// handleDue handles all events that are due. It returns the time until the next
// one is due, at most [retryHold], or zero if nothing is held back.
func (s *Service) handleDue(ctx context.Context) (pause time.Duration, err error) {
	for more := true; more; {
		var h Hold
		err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
			ahead, found, err := s.o.Holds.WaitAhead(tx, tx.Now())
			if err != nil {
				return err
			}
			if found {
				return s.applyHold(ctx, tx, ahead, ClockSetBack{})
			}
			if h, found, err = s.o.Holds.NextWait(tx); err != nil || !found {
				more, pause = false, 0
				return err
			}
			if left := time.UnixMilli(h.Due).Sub(tx.Now()); left > 0 {
				more, pause = false, min(left, retryHold)
				return nil
			}
			return s.expire(ctx, tx, h)
		})
		if err != nil && h.Rule != "" && ctx.Err() == nil {
			err = s.postpone(ctx, h, err)
		}
		if err != nil {
			return 0, err
		}
	}
	return pause, nil
}

// expire decides about a held event that is due. The rule may have changed since:
// it is the one in force that counts.
func (s *Service) expire(ctx context.Context, tx *db.Tx, h Hold) error {
	r, found := s.rule(h.Rule)
	in := HoldExpired{Rule: r, InForce: found && r.Enabled}
	if !in.InForce || !r.limited() {
		s.o.Logger.WarnContext(ctx, "dropped a held event: its rule is gone, off, or drops events now", "rule", h.Rule, "event_id", h.Event.ID)
		return s.applyHold(ctx, tx, h, in)
	}
	state, err := s.usage(tx, r, h.SessionID)
	if err != nil {
		return err
	}
	state.Hold = &h
	_, _, err = s.core(ctx).ApplyTo(tx, key{h.Rule, h.SessionID}, state, in)
	return err
}

func (s *Service) applyHold(ctx context.Context, tx *db.Tx, h Hold, in Input) error {
	_, _, err := s.core(ctx).ApplyTo(tx, key{h.Rule, h.SessionID}, State{Hold: &h}, in)
	return err
}

// postpone delays a held event that could not be handled, so that it does not
// block the others. By now, a newer event may be held in its place.
func (s *Service) postpone(ctx context.Context, failed Hold, cause error) error {
	s.o.Logger.ErrorContext(ctx, "cannot handle an event that a rule held back; trying again later", "rule", failed.Rule, "event_id", failed.Event.ID, "error", cause)
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		h, held, err := s.o.Holds.Waiting(tx, failed.Rule, failed.SessionID)
		if err != nil || !held {
			return err
		}
		return s.applyHold(ctx, tx, h, HoldFailed{})
	})
}
