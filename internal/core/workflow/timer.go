package workflow

import (
	"context"
	"fmt"
	"math"
	"time"

	"lilac/internal/engine/db"
)

// scheduler handles workflows whose time has come.
type scheduler struct{ *Service }

// watch handles due workflows until ctx ends. It sleeps while nothing is due.
func (s scheduler) watch(ctx context.Context) error {
	trouble := map[string]time.Time{} // workflows that failed, and since when
	last := int64(math.MaxInt64)      // the wall clock at the time looked
	looked := time.Now()
	for {
		now := s.o.Now().UnixMilli()
		if now < last {
			var in ClockSetBack
			if last < math.MaxInt64 {
				in.By = time.Since(looked) + time.Duration(last-now)*time.Millisecond
			}
			if err := s.correctClock(ctx, in); err != nil && ctx.Err() == nil {
				s.o.Logger.ErrorContext(ctx, "cannot correct the waiting workflows after the clock was set back", "error", err)
				now = math.MaxInt64 // the next round retries
			}
		}
		last, looked = now, time.Now()
		next, err := s.due(ctx, trouble)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "cannot read the due workflows", "error", err)
			next = retryPause
		}
		var timer *time.Timer
		var fired <-chan time.Time
		if next >= 0 {
			timer = time.NewTimer(next)
			fired = timer.C
		}
		select {
		case <-ctx.Done():
		case <-s.wakeup:
		case <-fired:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// due handles all due workflows. It returns the time until the next is due, negative
// for never. It skips a workflow that failed for a minute, so that it does not block
// the others.
func (s scheduler) due(ctx context.Context, trouble map[string]time.Time) (next time.Duration, err error) {
	const never = time.Duration(-1)
	for {
		var ids []string
		var at int64
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			if at, err = s.o.Table.NextDue(q); err != nil {
				return err
			}
			ids, err = s.o.Table.DueWorkflows(q, s.o.Now(), dueBatch+len(trouble))
			return err
		})
		if err != nil {
			return never, err
		}
		if len(ids) == 0 {
			clear(trouble)
		}
		done := 0
		for _, id := range ids {
			if since, failed := trouble[id]; failed && time.Since(since) < troubleFor {
				continue
			}
			done++
			if err := s.tick(ctx, id); err == nil {
				delete(trouble, id)
				continue
			} else if ctx.Err() == nil {
				s.o.Logger.ErrorContext(ctx, "cannot handle a due workflow", "workflow_id", id, "error", err)
			}
			trouble[id] = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return never, ctx.Err()
		case done > 0:
			continue
		case len(ids) > 0: // all of them failed recently
			return troubleFor, nil
		case at == 0:
			return never, nil
		}
		return min(max(time.UnixMilli(at).Sub(s.o.Now()), 0), maxSleep), nil
	}
}

func (s scheduler) tick(ctx context.Context, id string) error {
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		queued, err := s.queued(tx, id)
		if err != nil {
			return err
		}
		_, err = s.apply(tx, id, Tick{Queued: queued})
		return err
	})
}

// queued reports whether the last request of a workflow has not begun.
func (s scheduler) queued(q db.Queryer, id string) (bool, error) {
	if s.o.RequestQueued == nil {
		return false, nil
	}
	w, err := s.o.Table.Workflow(q, id)
	if err != nil || w.Resumes == 0 {
		return false, err
	}
	is, err := s.o.RequestQueued(q, RequestID(id, w.Resumes))
	if err != nil {
		return false, fmt.Errorf("check whether run %d has begun: %w", w.Resumes, err)
	}
	return is, nil
}
