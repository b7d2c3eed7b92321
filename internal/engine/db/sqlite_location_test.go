package db_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Writes that the next start would not find must not be accepted.
func TestARemovedOrMovedDatabaseRejectsWrites(t *testing.T) {
	file := func(name string) func(dir string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	for name, c := range map[string]struct {
		lose func(dir string) error
		lost bool
	}{
		"the file is removed":      {file("lilac.db"), true},
		"the log is removed":       {file("lilac.db-wal"), true},
		"the lock is removed":      {file("lilac.lock"), true},
		"the directory is moved":   {func(dir string) error { return os.Rename(dir, dir+".away") }, true},
		"the directory is emptied": {os.RemoveAll, true},
		"another file replaces it": {func(dir string) error {
			path := filepath.Join(dir, "lilac.db")
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+".copy", data, 0o600), os.Rename(path+".copy", path))
		}, true},
		"control: nothing happens": {func(string) error { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			d := openFile(t, dir)
			if err := d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "a") }); err != nil {
				t.Fatal(err)
			}
			if err := c.lose(dir); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"a write":   d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "b") }),
				"the probe": d.Probe(t.Context(), time.Hour),
			} {
				if lost := fault.ToWire(err).Code == "database_away" && fault.KindOf(err) == fault.Unavailable; lost != c.lost || !lost && err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// The restored database accepts writes, and contains no rejected write.
func TestADatabaseThatIsMovedBackAcceptsWrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d := openFile(t, dir)
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "refused") }); err == nil {
		t.Error("a write to the moved database was accepted")
	}
	if err := os.Rename(away, dir); err != nil {
		t.Fatal(err)
	}
	err := d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "accepted") })
	if n := count(t, d); err != nil || n != 1 {
		t.Errorf("%v, and %d rows; want the accepted one", err, n)
	}
}
