package store_test

import (
	"errors"
	"testing"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

// SpentBy counts only the runs of the given day: no earlier runs, and no runs with later
// times, which exist if the wall clock was ahead for a while.
func TestWhatARuleHasUsedIsThatOfTheDay(t *testing.T) {
	reread(t, t.TempDir(), func(d *db.DB) {
		s, day := store.New(d), time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
		update(t, d, func(tx *db.Tx) (err error) {
			for id, of := range map[string]struct {
				at   time.Time
				used int64
			}{
				"before": {day.Add(-time.Millisecond), 1}, "first": {day, 10}, "last": {day.Add(24*time.Hour - time.Millisecond), 100},
				"after": {day.Add(24 * time.Hour), 1000}, "years ahead": {day.AddDate(9, 0, 0), 10_000},
			} {
				r := session.Request{ID: "env:s:" + id, SessionID: "s", Client: "web", State: event.StateDone, CreatedAt: of.at.UnixMilli()}
				err = errors.Join(err, s.Requests.CreateRequest(tx, r))
				r.Usage = chat.Usage{InputTokens: of.used}
				err = errors.Join(err, s.Requests.SaveRequest(tx, r), s.RuleRuns.AddRun(tx, environment.Run{
					Rule: "r", EventID: id, SessionID: "s", RequestID: r.ID, Outcome: environment.OutcomeAgent, At: of.at.UnixMilli(),
				}))
			}
			return err
		})
		err := d.Read(t.Context(), func(q db.Queryer) error {
			if got, err := s.RuleRuns.SpentBy(q, "r", "s", day); err != nil || got.Tokens != 110 {
				t.Errorf("on the day it used %+v, %v", got, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
