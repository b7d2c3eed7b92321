package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lilac/internal/engine/db"
)

// scanBatch is how many workflows are looked at in one go.
const scanBatch = 100

// ClockSetBack is the clock having been ahead, perhaps, when something was planned, and
// being right now. Back is by how much it was set back, as far as that was seen.
type ClockSetBack struct{ By time.Duration }

func (ClockSetBack) incoming() {}

// setRight lets nothing wait for a moment that is one only by a clock that was ahead.
// What waits for so long, and began in the future, began as much earlier as the clock
// was set back, now at the latest. A moment that somebody named stays.
func (d *decision) clockSetBack(in ClockSetBack) {
	if d.State.Ended() {
		return
	}
	now := d.now.UnixMilli()
	d.CreatedAt = min(d.CreatedAt, now)
	for i, t := range d.Tasks {
		if t.State == Waiting && t.Kind != KindMoment && t.Wait.Kind != BySchedule && t.CreatedAt > now {
			begun := min(t.CreatedAt-in.By.Milliseconds(), now)
			d.Tasks[i].CreatedAt, d.Tasks[i].Due = begun, begun+t.Due-t.CreatedAt
		}
	}
	if d.State == Waiting && len(d.Tasks) > 0 && d.Tasks[0].Wait.Kind == BySchedule {
		d.reschedule(&d.Tasks[0])
	}
}

// scheduleRight has a schedule go on now that a clock which was far ahead would let
// rest until that time has come. A run that is the next one, or one behind it because
// the clock went back a little over the last, stays: it is not made twice.
func (d *decision) reschedule(t *Task) {
	next, err := nextRun(t.Wait, d.now)
	if err != nil || next.IsZero() {
		return
	}
	if then, err := nextRun(t.Wait, next); err == nil && !then.IsZero() && t.Due > then.UnixMilli() {
		t.Due = next.UnixMilli()
	}
}

// setRight looks at all that waits. It is done at the start and when the clock went
// back, so that nothing has to be looked at all the time.
func (s *Service) correctClock(ctx context.Context, in ClockSetBack) error {
	var wrong []string // gathered first: what is set right has another place in the list
	before := ""
	for more := true; more; {
		var found []Workflow
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			found, err = s.o.Table.Workflows(q, "", true, scanBatch, before)
			return err
		})
		if err != nil {
			return fmt.Errorf("look at what waits: %w", err)
		}
		for _, w := range found {
			before = w.ID
			right, _ := Decide(w, in, s.o.Now())
			if right.CreatedAt != w.CreatedAt || !slices.EqualFunc(right.Tasks, w.Tasks, func(a, b Task) bool { return a.Due == b.Due }) {
				wrong = append(wrong, w.ID)
			}
		}
		more = len(found) == scanBatch
	}
	for _, id := range wrong {
		s.o.Logger.WarnContext(ctx, "a workflow was planned by a clock that was ahead, and goes on from now", "workflow_id", id)
		err := s.o.DB.Update(ctx, func(tx *db.Tx) error { _, err := s.apply(tx, id, in); return err })
		if err != nil {
			return fmt.Errorf("plan the workflow %s again: %w", id, err)
		}
	}
	return nil
}
