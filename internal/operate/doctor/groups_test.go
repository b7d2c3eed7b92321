package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
	"lilac/internal/store"
)

func TestAGroupThatWasLeftBehindIsNamed(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Add(-10 * 24 * time.Hour)
	database, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: append(append([]db.Migration{}, sqlitebus.Migrations...), store.Migrations...)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	declare := func(group string) {
		if err := b.Declare(t.Context(), bus.Subscription{Topic: "env", Group: group}); err != nil {
			t.Fatal(err)
		}
	}
	declare("retired")
	now = now.Add(5 * 24 * time.Hour)
	declare("runner")
	declare("rules")
	b.Close()
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	groups := func() doctor.Finding {
		for _, f := range doctor.Examine(t.Context(), doctor.Patient{Config: &config.Config{DataDir: dir, Workspace: t.TempDir()}}) {
			if f.Check == "groups" {
				return f
			}
		}
		t.Fatal("groups are not examined")
		return doctor.Finding{}
	}
	f := groups()
	if f.Status != doctor.Warn || !strings.Contains(f.Message, "retired of env") || strings.Contains(f.Message, "runner") ||
		!strings.Contains(f.Advice, "lilac groups drop env retired") {
		t.Errorf("finding %+v; want a warning that names the retired group alone and says how to drop it", f)
	}
	err = doctor.WithGroups(t.Context(), config.Location{DataDir: dir}, true, func(b *sqlitebus.Bus) error { return b.DropGroup(t.Context(), "env", "retired") })
	if err != nil {
		t.Fatal(err)
	}
	if f := groups(); f.Status != doctor.OK {
		t.Errorf("after the drop: %+v", f) // the control of the warning
	}
}

// After doctor of a newer version ran, the version that wrote the database can still open it.
func TestALookLeavesTheTablesAsTheyAre(t *testing.T) {
	dir := t.TempDir()
	all := append(append([]db.Migration{}, sqlitebus.Migrations...), store.Migrations...)
	open := func(migrations []db.Migration) {
		t.Helper()
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	older := all[:len(all)-1]
	look := func(deep bool) map[string]doctor.Finding {
		out := map[string]doctor.Finding{}
		p := doctor.Patient{Config: &config.Config{DataDir: dir, Workspace: t.TempDir()}, Deep: deep}
		for _, f := range doctor.Examine(t.Context(), p) {
			out[f.Check] = f
		}
		return out
	}
	open(older)
	check(t, look(false)["database"], doctor.OK, "the next start migrates it")
	check(t, look(false)["groups"], doctor.Warn, "an older Lilac wrote the database")
	check(t, look(true)["database"], doctor.Warn, "rows not checked")
	open(older)
	open(all)
	check(t, look(true)["database"], doctor.OK, "stored files are intact") // the control
	check(t, look(false)["groups"], doctor.OK, "none yet")
}

// A database that was restored from the backup of an older version has no write-ahead log. doctor
// must not create one.
func TestALookAtARestoredDatabaseOfAnOlderProgram(t *testing.T) {
	made, dir := t.TempDir(), filepath.Join(t.TempDir(), "data")
	all := append(append([]db.Migration{}, sqlitebus.Migrations...), store.Migrations...)
	d, err := db.Open(t.Context(), db.Options{Dir: made, Migrations: all[:len(all)-1]})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	// This is how a backup and its restore copy the database.
	if _, err := db.Snapshot(t.Context(), made, filepath.Join(dir, db.FileName)); err != nil {
		t.Fatal(err)
	}
	p := doctor.Patient{Config: &config.Config{DataDir: dir, Workspace: t.TempDir()}}
	check(t, examine(t, p, "database"), doctor.OK, "the next start migrates it")
}
