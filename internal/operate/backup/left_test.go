package backup_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lilac/internal/operate/backup"
)

// A killed backup leaves a copy of the whole database behind; the next backup deletes it. The copy
// of a backup that is still running is kept.
func TestWhatAKilledBackupLeftIsRemoved(t *testing.T) {
	dir, temp := filepath.Join(t.TempDir(), "data"), t.TempDir()
	data(t, dir)
	left, other := filepath.Join(temp, ".lilac-backup-1"), filepath.Join(temp, ".lilac-backup-2")
	for _, path := range []string{left, other} {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "lilac.db"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Close()
	if err := syscall.Flock(int(runs.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Write(t.Context(), dir, filepath.Join(temp, "b.tar.gz"), "v", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what a killed one left is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "lilac.db")); err != nil {
		t.Errorf("what one uses that runs: %v", err)
	}
}
