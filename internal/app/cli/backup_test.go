package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/backup"
	"lilac/internal/store"
)

// A backup of damaged files succeeds and can be restored, but the exit code of both commands
// reports the damage, so that scripts notice it.
func TestBackupReportsDamagedFiles(t *testing.T) {
	dir, temp := filepath.Join(t.TempDir(), "data"), t.TempDir()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: store.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := store.OpenBlobs(store.BlobsDir(dir), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := b.Put(t.Context(), []byte("a file"))
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(ref, store.BlobPrefix)
	file := func(n string) string { return filepath.Join(temp, n) }
	all := func(code int, said string, files ...string) {
		t.Helper()
		for _, args := range [][]string{
			{"backup", file(files[0]), "--data", dir},
			{"restore", file(files[0]), "--check"},
			{"restore", file(files[0]), "--data", file(files[1])},
			{"backup", file(files[2]), "--data", dir, "--json"},
		} {
			out, errOut, got := call(t, "", nil, args...)
			if got != code || !strings.Contains(out+errOut, said) {
				t.Errorf("%q: %d, %s%s", args, got, out, errOut)
			}
			if code != 0 && strings.Contains(out, "all verified") {
				t.Errorf("%q: %s", args, out)
			}
		}
	}
	all(0, "", "whole", "into", "json")
	if err := os.WriteFile(filepath.Join(dir, "blobs", name[:2], name), []byte("A FILE"), 0o600); err != nil {
		t.Fatal(err)
	}
	all(1, name, "damaged", "into too", "json too")
	if _, err := os.Stat(filepath.Join(temp, "into too", db.FileName)); err != nil {
		t.Errorf("nothing was restored: %v", err)
	}
}

// The exit codes also report files that are missing in a backup because their directory could
// not be read.
func TestBackupReportsUnreadableDirectories(t *testing.T) {
	m := backup.Manifest{Entries: []backup.Entry{{Name: db.FileName}}, Unread: []string{"blobs/ab", "blobs/\x1bcd"}}
	for _, json := range []bool{false, true} {
		var out strings.Builder
		err := (&printer{out: &out, json: json}).printBackup(m, "b is whole")
		if fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "blobs/ab, blobs/") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("it ends with %v", err)
		}
		if strings.Contains(out.String(), "all verified") || json != strings.Contains(out.String(), `"unread"`) {
			t.Errorf("it says %s", out.String())
		}
	}
	m.Unread = nil
	if err := (&printer{out: io.Discard}).printBackup(m, "b is whole"); err != nil {
		t.Errorf("control: it ends with %v", err)
	}
}
