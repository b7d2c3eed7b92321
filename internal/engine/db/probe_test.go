package db_test

import (
	"errors"
	"sync/atomic"
	"syscall"
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

// A disk is full as long as it refuses what a large prompt takes, although small writes still fit.
func TestProbeOfAFullDiskIsNotContentWithASmallWrite(t *testing.T) {
	d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: tables})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	write := func(query string) error {
		return d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(query)
			return err
		})
	}
	probe := func() error { return errors.Join(d.Probe(t.Context(), time.Hour), d.Healthy()) }
	small := "INSERT INTO meta (name, value) VALUES ('small', 1) ON CONFLICT (name) DO UPDATE SET value = 2"
	if err := errors.Join(write("PRAGMA max_page_count = 60"), write(small), probe()); err != nil {
		t.Errorf("control: before anything large is written: %v", err)
	}
	if err := write("INSERT INTO meta (name, value) VALUES ('large', hex(zeroblob(1000000)))"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a large write: %v", err)
	}
	for range 2 {
		if err := write(small); err != nil {
			t.Errorf("a small write: %v", err)
		}
		if err := probe(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the probe says %v", err)
		}
	}
	if err := errors.Join(write("PRAGMA max_page_count = 100000"), probe(), probe()); err != nil {
		t.Errorf("after space was freed: %v", err)
	}
}
