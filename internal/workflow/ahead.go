package workflow

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/db"
)

// aheadBatch is how many workflows are looked at in one go.
const aheadBatch = 100

// SetRight is the clock having been ahead, perhaps, when the next run of a schedule
// was planned, and being right now.
type SetRight struct{}

func (SetRight) incoming() {}

// setRight has a schedule go on now that a clock which was far ahead would let rest
// until that time has come. A run that is the next one, or one behind it because the
// clock went back a little over the last, stays: it is not made twice.
func (d *decision) setRight() {
	if d.State != Waiting || len(d.Tasks) == 0 || d.Tasks[0].Wait.Way != BySchedule {
		return
	}
	t := &d.Tasks[0]
	next, err := nextRun(t.Wait, d.now)
	if err != nil || next.IsZero() {
		return
	}
	if then, err := nextRun(t.Wait, next); err == nil && !then.IsZero() && t.Due > then.UnixMilli() {
		t.Due = next.UnixMilli()
	}
}

// setRight looks at all schedules. It is done at the start and when the clock went
// back, so that nothing has to be looked at all the time.
func (s *Service) setRight(ctx context.Context) error {
	before := ""
	for {
		var found []Workflow
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			found, err = s.o.Table.Workflows(q, "", true, aheadBatch, before)
			return err
		})
		if err != nil {
			return fmt.Errorf("look at schedules: %w", err)
		}
		for _, w := range found {
			before = w.ID
			now, _ := Decide(w, SetRight{}, time.Now())
			if now.Due() == w.Due() {
				continue
			}
			s.o.Logger.WarnContext(ctx, "a schedule was planned by a clock that was ahead, and goes on from now", "workflow_id", w.ID)
			err := s.o.DB.Update(ctx, func(tx *db.Tx) error { _, err := s.apply(tx, w.ID, SetRight{}); return err })
			if err != nil {
				return fmt.Errorf("plan the schedule %s again: %w", w.ID, err)
			}
		}
		if len(found) < aheadBatch {
			return nil
		}
	}
}
