package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/db"
	"lilac/internal/store"
)

// A backup of what is damaged is made and can be restored, and whoever makes or
// restores it without reading is told by the exit code.
func TestABackupTellsOfDamagedFiles(t *testing.T) {
	dir, temp := filepath.Join(t.TempDir(), "data"), t.TempDir()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: store.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	b, err := store.OpenBlobs(dir, 0)
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
