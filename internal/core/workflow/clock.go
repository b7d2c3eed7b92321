package workflow

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lilac/internal/engine/db"
)

// scanBatch is the number of workflows per read.
const scanBatch = 100

// ClockSetBack is the clock having been ahead, perhaps, when something was planned, and
// being right now. Back is by how much it was set back, as far as that was seen.
type ClockSetBack struct{ By time.Duration }

func (ClockSetBack) incoming() {}

// clockSetBack corrects due times that a clock which was ahead has computed. A wait
// that seems to have begun in the future began earlier by the amount of the
// correction, and now at the latest. A time that was given as such stays.
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

// reschedule corrects the next run of a schedule that a clock far ahead has put into
// the future. It keeps the next run and the one after it: the clock may have gone
// back only a little past the last run, which must not happen twice.
func (d *decision) reschedule(t *Task) {
	next, err := nextRun(t.Wait, d.now)
	if err != nil || next.IsZero() {
		return
	}
	if then, err := nextRun(t.Wait, next); err == nil && !then.IsZero() && t.Due > then.UnixMilli() {
		t.Due = next.UnixMilli()
	}
}

// correctClock corrects all waiting workflows. It runs at the start and when the clock
// was set back.
func (s scheduler) correctClock(ctx context.Context, in ClockSetBack) error {
	var wrong []string // collected first, because a correction changes the order of the list
	before := ""
	for more := true; more; {
		var found []Workflow
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			found, err = s.o.Table.Workflows(q, "", true, scanBatch, before)
			return err
		})
		if err != nil {
			return fmt.Errorf("list waiting workflows: %w", err)
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
		s.o.Logger.WarnContext(ctx, "corrected a workflow that was scheduled by a clock that was ahead", "workflow_id", id)
		err := s.o.DB.Update(ctx, func(tx *db.Tx) error { _, err := s.apply(tx, id, in); return err })
		if err != nil {
			return fmt.Errorf("reschedule workflow %s: %w", id, err)
		}
	}
	return nil
}
