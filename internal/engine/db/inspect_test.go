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

// Only what was seen to be damaged is called so: who was stopped, or could not read,
// knows nothing of the file.
func TestALookThatFailsCallsNothingDamaged(t *testing.T) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	looks := map[string]func(ctx context.Context, dir string) error{
		"open": func(ctx context.Context, dir string) error {
			_, err := db.Open(ctx, db.Options{Dir: dir, Migrations: tables})
			return err
		},
		"its id": func(ctx context.Context, dir string) error {
			_, err := db.StoreIDIn(ctx, dir)
			return err
		},
		"snapshot": func(ctx context.Context, dir string) error {
			_, err := db.Snapshot(ctx, dir, filepath.Join(t.TempDir(), "copy.db"))
			return err
		},
		"check": func(ctx context.Context, dir string) error {
			_, err := db.Check(ctx, filepath.Join(dir, db.FileName))
			return err
		},
	}
	sound := func(t *testing.T) string {
		dir := t.TempDir()
		if err := open(t, dir).Close(); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, look := range looks {
		t.Run(name, func(t *testing.T) {
			if err := look(stopped, sound(t)); fault.KindOf(err) != fault.Cancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("stopped: %v", err)
			}
			overwritten := sound(t)
			if err := os.WriteFile(filepath.Join(overwritten, db.FileName), make([]byte, 8192), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := look(t.Context(), overwritten); fault.ToWire(err).Code != "damaged_database" {
				t.Errorf("control: overwritten: %v", err)
			}
			if name == "check" {
				return // it reads the file alone
			}
			unread := sound(t)
			if err := os.Mkdir(filepath.Join(unread, db.FileName+"-wal"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := look(t.Context(), unread); fault.KindOf(err) != fault.Unavailable {
				t.Errorf("its log cannot be read: %v", err)
			}
		})
	}
}
