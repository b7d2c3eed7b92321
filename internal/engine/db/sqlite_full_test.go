package db_test

import (
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// A database that has reached its maximum page count fails like one on a full disk.
func TestAFullDiskIsReportedAsSuch(t *testing.T) {
	const full = "PRAGMA max_page_count = 30; CREATE TABLE large (data BLOB) STRICT;"
	const grow = "INSERT INTO large VALUES (zeroblob(1000000))"
	reportsFullDisk := func(err error) {
		t.Helper()
		if wire := fault.ToWire(err); wire.Kind != fault.Unavailable || wire.Message != "The disk is full: free some space." || !errors.Is(err, syscall.ENOSPC) || !db.IsEngineError(err) {
			t.Errorf("%v is reported as %+v", err, wire)
		}
	}
	_, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: []db.Migration{{Name: "t", SQL: full + grow}}})
	reportsFullDisk(err)
	d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: []db.Migration{{Name: "t", SQL: full}}})
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
	reportsFullDisk(write(grow))
	if err := write("INSERT INTO large VALUES (zeroblob(10))"); err != nil {
		t.Errorf("a row that still fits: %v", err)
	}
	if err := write("INSERT INTO nowhere VALUES (1)"); err == nil || errors.Is(err, syscall.ENOSPC) {
		t.Errorf("control: another error is %v", err)
	}
}

// So does a write that shares its commit with others.
func TestAFullDiskIsReportedToEachWriterOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble detects that all goroutines wait
		d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: []db.Migration{{
			Name: "t", SQL: "PRAGMA max_page_count = 30; CREATE TABLE large (data BLOB) STRICT;",
		}}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		held, release := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _ = d.Update(t.Context(), func(*db.Tx) error { close(held); <-release; return nil }) })
		<-held
		for range 2 {
			all.Go(func() {
				err := d.Update(t.Context(), func(tx *db.Tx) error {
					_, err := tx.Exec("INSERT INTO large VALUES (zeroblob(1000000))")
					return err
				})
				if !errors.Is(err, syscall.ENOSPC) || !db.IsOutage(err) {
					t.Errorf("%v, want that the disk is full", err)
				}
			})
		}
		synctest.Wait()
		close(release)
		all.Wait()
	})
}

// On PostgreSQL, a full disk ends the statement that met it, and not the group.
func TestAFullDiskOfPostgresIsReportedToEachWriterOfAGroup(t *testing.T) {
	d, err := onServer(t, startPostgres(t).Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var all sync.WaitGroup
	for range 50 { // of which some share a commit
		all.Go(func() {
			err := d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$")
				return err
			})
			if wire := fault.ToWire(err); wire.Message != "The disk of PostgreSQL is full: free some space." || !db.IsOutage(err) {
				t.Errorf("%v is reported as %+v", err, wire)
			}
		})
	}
	all.Wait()
}
