package db_test

import (
	"errors"
	"syscall"
	"testing"

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
