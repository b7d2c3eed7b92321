package db_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// A cancelled or failed read says nothing about the file, so the file must not be
// called damaged.
func TestACancelledOrFailedReadDoesNotReportDamage(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	readers := map[string]func(ctx context.Context, dir string) error{
		"open": func(ctx context.Context, dir string) error {
			_, err := db.Open(ctx, db.Options{Dir: dir, Migrations: tables})
			return err
		},
		"store id": func(ctx context.Context, dir string) error {
			_, err := db.ReadStoreID(ctx, dir)
			return err
		},
		"snapshot": func(ctx context.Context, dir string) error {
			_, err := db.Snapshot(ctx, dir, filepath.Join(t.TempDir(), "copy.db"))
			return err
		},
		"check": func(ctx context.Context, dir string) error {
			_, err := db.CheckFile(ctx, filepath.Join(dir, db.FileName))
			return err
		},
	}
	sound := func(t *testing.T) string {
		dir := t.TempDir()
		if err := openFile(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			if err := read(stopped, sound(t)); fault.KindOf(err) != fault.Cancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
			overwritten := sound(t)
			if err := os.WriteFile(filepath.Join(overwritten, db.FileName), make([]byte, 8192), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := read(t.Context(), overwritten); fault.ToWire(err).Code != "damaged_database" {
				t.Errorf("control: overwritten: %v", err)
			}
			if name == "check" {
				return // it reads only the file, without the log
			}
			unread := sound(t)
			if err := os.Mkdir(filepath.Join(unread, db.FileName+"-wal"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := read(t.Context(), unread); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("with an unreadable log: %v", err)
			}
		})
	}
}
