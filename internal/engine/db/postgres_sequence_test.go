package db_test

import (
	"testing"

	"lilac/internal/engine/db"
)

// Logical replication copies rows, and leaves the sequences of their numbers at the beginning. A start on
// such a copy continues behind the rows.
func TestSequencesContinueBehindTheRows(t *testing.T) {
	s := startPostgres(t)
	numbered := func(o *db.Options) {
		o.Migrations = []db.Migration{{Name: "n", SQL: "CREATE TABLE numbered (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT"}}
	}
	insert := func(d *db.DB, name string) (id int, err error) {
		err = d.Update(t.Context(), func(tx *db.Tx) error {
			return tx.QueryRow("INSERT INTO numbered (name) VALUES (?) RETURNING id", name).Scan(&id)
		})
		return id, err
	}
	for want, before := range []string{"", "", "ALTER SEQUENCE one.numbered_id_seq RESTART", "ALTER SEQUENCE one.numbered_id_seq RESTART 10"} {
		if err := s.Do(before); err != nil {
			t.Fatal(err)
		}
		d, err := onServer(t, s.Addr(), "one", numbered)
		if err != nil {
			t.Fatal(err)
		}
		if want++; want == 4 { // a sequence that is ahead stays ahead
			want = 10
		}
		if id, err := insert(d, before); err != nil || id != want {
			t.Errorf("after %q: row %d, %v; want %d", before, id, err, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
