package db_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/db"
)

// A failed write does not show that the disk works.
func TestProbeDoesNotCountAFailedWriteAsACommit(t *testing.T) {
	for name, c := range map[string]struct {
		result error
		probed bool
	}{
		"it fails":          {errors.New("no"), true},
		"control: it works": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64
			d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: tables, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "a") }); err != nil {
				t.Fatal(err)
			}
			now.Add(3600)
			err = d.Update(t.Context(), func(tx *db.Tx) error { return errors.Join(insert(tx, "b"), c.result) })
			if !errors.Is(err, c.result) {
				t.Fatal(err)
			}
			if err := d.Probe(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			var probed bool
			err = d.Read(t.Context(), func(q db.Queryer) error {
				return q.QueryRow("SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'probed')").Scan(&probed)
			})
			if err != nil || probed != c.probed {
				t.Errorf("probed %v, %v, want %v", probed, err, c.probed)
			}
		})
	}
}
