package store

import (
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/testkit/dbtest"
)

// A search on PostgreSQL reads the index of words, not every message. In the control, the index
// is gone.
func TestSearchOnPostgresUsesTheIndex(t *testing.T) {
	if !dbtest.Postgres() {
		t.Skip("the index of SQLite is its only way to search")
	}
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	do := func(statements ...string) {
		t.Helper()
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(statement); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	do("INSERT INTO history_words (rowid, said) SELECT n, lilac_vector('word' || n || ' common') FROM generate_series(1, 20000) n", "ANALYZE history_words")
	usesIndex := func(statement string) bool {
		t.Helper()
		var plan string
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			plan = ""
			if _, err := tx.Exec("SET LOCAL enable_seqscan = off"); err != nil { // as if there were more messages
				return err
			}
			rows, err := tx.Query("EXPLAIN "+statement, `"word77"*`, int64(1<<40), "", "", "[]", 20)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var line string
				if err := rows.Scan(&line); err != nil {
					return err
				}
				plan += line + "\n"
			}
			return rows.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(plan)
		return strings.Contains(plan, "Index Scan on history_words_said")
	}
	if !usesIndex(searchHistoryPostgres) {
		t.Error("the index is not used")
	}
	do("DROP INDEX history_words_said")
	if usesIndex(searchHistoryPostgres) {
		t.Error("control: an index is used that does not exist")
	}
}
