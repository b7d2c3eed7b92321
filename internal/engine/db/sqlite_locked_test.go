package db_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// A transaction of another program, such as a shell of sqlite3, keeps the database locked.
func TestADatabaseThatAnotherProgramLocksIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := db.Open(t.Context(), db.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	shell, err := sql.Open("sqlite", filepath.Join(dir, db.FileName)+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer shell.Close()
	tx, err := shell.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Open(t.Context(), db.Options{Dir: dir})
	if wire := fault.ToWire(err); wire.Kind != fault.Unavailable || wire.Code != "database_locked" || !strings.Contains(wire.Message, "has locked the database file") {
		t.Errorf("%v is reported as %+v", err, wire)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if d, err = db.Open(t.Context(), db.Options{Dir: dir}); err != nil {
		t.Fatalf("without the other program: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
