package db_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Root opens the data of a service, for example to move it from another database. What root makes
// there must not keep the service from starting.
func TestFilesThatRootCreatesBelongToTheOwnerOfTheDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can open files of other users")
	}
	for name, uid := range map[string]int{"a service's": 61234, "root's own": 0} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			if err := os.Chown(above, uid, uid); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(above, "data")
			openFile(t, dir)
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != 4 { // the lock, the database, and two of its log
				t.Errorf("there are %v, %v", files, err)
			}
			for _, name := range append(names(files), ".") {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != uid || int(st.Gid) != uid || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s is %v of %d:%d, want %d", name, info.Mode(), st.Uid, st.Gid, uid)
				}
			}
		})
	}
}

func names(entries []os.DirEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// The files of a directory may be removed while it is in use; it stays locked.
func TestAnEmptiedDirectoryStaysLocked(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	second := func() error {
		other, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: tables})
		if err == nil {
			err = other.Close()
		}
		return err
	}
	if err := second(); fault.ToWire(err).Code != "data_directory_in_use" {
		t.Errorf("while it is in use: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the refused process left %d files: %v", len(left), err)
	}
	if err := d.Close(); err != nil {
		t.Logf("its files are gone: %v", err)
	}
	if err := second(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
