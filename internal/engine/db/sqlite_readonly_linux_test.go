package db_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// The kernel makes a file system read-only when its disk fails. The error of a backup
// says how to save the data.
func TestAReadOnlyDiskIsReportedWithAdvice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a disk read-only")
	}
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); errors.Is(err, syscall.EPERM) {
		t.Skip("this root may not mount")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: tables})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Update(t.Context(), func(tx *db.Tx) error { return insert(tx, "a") }), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, start := db.Open(t.Context(), db.Options{Dir: dir, Migrations: tables})
	_, save := db.Snapshot(t.Context(), dir, filepath.Join(elsewhere, "saved.db"))
	for what, err := range map[string]error{"a start": start, "a backup": save} {
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(fault.ToWire(err).Message, "read-only") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The advice works.
	if err := os.CopyFS(filepath.Join(elsewhere, "copy"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Snapshot(t.Context(), filepath.Join(elsewhere, "copy"), filepath.Join(elsewhere, "saved.db")); err != nil {
		t.Errorf("a backup of the copy: %v", err)
	}
}
