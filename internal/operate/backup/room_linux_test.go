package backup_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/backup"
	"lilac/internal/store"
)

// The disk can fill up while the database is copied, while the archive is written, and during a
// restore.
func TestAFullDiskIsNamedWithWhatIsFreeAndWhatIsNeeded(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a small disk")
	}
	for name, fill := range map[string]func(d *db.DB, b *store.Blobs) error{
		"for the copy": func(d *db.DB, _ *store.Blobs) error {
			return d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO t VALUES (1, ?)", strings.Repeat("x", 2<<20))
				return err
			})
		},
		"for the files": func(_ *db.DB, b *store.Blobs) error {
			noise := make([]byte, 2<<20) // random, so that it does not compress
			_, _ = rand.Read(noise)
			_, err := b.Put(t.Context(), noise)
			return err
		},
	} {
		dir, small := filepath.Join(t.TempDir(), "data"), t.TempDir()
		if err := fill(data(t, dir)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
		_, err := backup.Write(t.Context(), dir, filepath.Join(small, "b.tar.gz"), "v", time.Now())
		said := fault.ToWire(err).Message
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(said, small+" has 1 MiB free, and a backup of "+dir+" takes up to ") {
			t.Errorf("no room %s: %v", name, err)
		}
		if strings.Contains(said, "up to 0 MiB") || strings.Contains(said, "up to 1 MiB") {
			t.Errorf("no room %s, and less is needed than is free: %s", name, said)
		}
		if left, _ := os.ReadDir(small); len(left) > 0 {
			t.Errorf("no room %s: left behind: %v", name, left)
		}
		file := filepath.Join(t.TempDir(), "b.tar.gz")
		if _, err := backup.Write(t.Context(), dir, file, "v", time.Now()); err != nil {
			t.Fatal(err)
		}
		_, err = backup.Restore(t.Context(), file, small)
		said = fault.ToWire(err).Message
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(said, small+" has 1 MiB free, and it takes ") {
			t.Errorf("no room to restore what was no room %s: %v", name, err)
		}
		if left, _ := os.ReadDir(small); len(left) > 0 {
			t.Errorf("no room to restore what was no room %s: left behind: %v", name, left)
		}
	}
}
