package store_test

import (
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// Each call of a Trim method deletes a bounded number of rows. Together, the calls delete
// all rows that are too old, and no others.
func TestCleanupsHoldTheWriterForABoundedNumberOfRows(t *testing.T) {
	const many, most = 2500, 1000
	const day = 24 * time.Hour
	before := time.UnixMilli(0).Add(100 * day)
	for table, c := range map[string]struct {
		// insert creates ?1 rows with the time ?2.
		insert string
		trim   func(tx *db.Tx, before time.Time) (bool, error)
	}{
		"session_accepted": {`INSERT INTO session_accepted (session_id, message_id, at) SELECT 's', CAST(?2 AS TEXT) || '/' || n, ?2 FROM numbers`, store.Inbox{}.TrimInbox},
		"inbox":            {`INSERT INTO inbox (source, external_id, at) SELECT 's', CAST(?2 AS TEXT) || '/' || n, ?2 FROM numbers`, store.Inbox{}.TrimInbox},
		"rule_runs": {`INSERT INTO rule_runs (rule, event_id, type, session_id, message_id, request_id, outcome, depth, at)
			SELECT 'r', CAST(?2 AS TEXT) || '/' || n, '', '', '', '', '', 0, ?2 FROM numbers`, store.RuleRuns{}.TrimRules},
		"rule_refusals": {`INSERT INTO rule_refusals (rule, event_id, type, session_id, outcome, depth, at) SELECT 'r', n, '', '', '', 0, ?2 FROM numbers`, store.RuleRuns{}.TrimRules},
		"rule_events":   {`INSERT INTO rule_events (session_id, event_id, at, json) SELECT 's', CAST(?2 AS TEXT) || '/' || n, ?2, CAST(' ' AS BLOB) FROM numbers`, store.RuleRuns{}.TrimRules},
		"rule_counts":   {`INSERT INTO rule_counts (rule, session_id, outcome, day, n) SELECT 'r', n, '', ?2 / 86400000, 1 FROM numbers`, store.RuleRuns{}.TrimRules},
	} {
		t.Run(table, func(t *testing.T) {
			d, _ := open(t)
			update(t, d, func(tx *db.Tx) error {
				for _, one := range []struct {
					rows int
					at   time.Time
				}{{many, before.Add(-day)}, {1, before}} {
					_, err := tx.Exec(`WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1) `+c.insert, one.rows, one.at.UnixMilli())
					if err != nil {
						return err
					}
				}
				return nil
			})
			left := many + 1
			for more := true; more; {
				had := left
				update(t, d, func(tx *db.Tx) (err error) {
					if more, err = c.trim(tx, before); err != nil {
						return err
					}
					return tx.QueryRow(`SELECT COUNT(*) FROM ` + table).Scan(&left)
				})
				if removed := had - left; removed > most || more && removed == 0 {
					t.Fatalf("one transaction removed %d rows", removed)
				}
			}
			if left != 1 {
				t.Errorf("%d rows are left, want the young one", left)
			}
		})
	}
}
