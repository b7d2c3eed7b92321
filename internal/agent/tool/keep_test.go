package tool

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestKeepWritesWithinTheWorkspaceOnly(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	name, err := Keep(dir, "event-1", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Keep(dir, "event-1", []byte("two")); err != nil || again != name {
		t.Errorf("again it is %q, %v", again, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "two" {
		t.Errorf("%q, %v", got, err)
	}
	// What the model's commands may have put there is no way out, and no trap.
	pipe := filepath.Join(dir, OutputDir, "event-2.txt")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Keep(dir, "event-2", []byte("three")); err != nil {
		t.Errorf("a pipe in its place: %v", err)
	}
	link := filepath.Join(dir, OutputDir, "event-3.txt")
	if err := os.Symlink(filepath.Join(outside, "x"), link); err != nil {
		t.Fatal(err)
	}
	if _, err := Keep(dir, "event-3", []byte("four")); err != nil {
		t.Errorf("a link in its place: %v", err)
	}
	if name, err := Keep(dir, "../../"+strings.Repeat("x", 300), []byte("five")); err != nil || filepath.Dir(name) != OutputDir {
		t.Errorf("an odd id: %q, %v", name, err)
	}
	if found, err := os.ReadDir(outside); err != nil || len(found) > 0 {
		t.Errorf("outside of the workspace there are %v, %v", found, err)
	}
	other := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(other, ".lilac")); err != nil {
		t.Fatal(err)
	}
	if _, err := Keep(other, "event-1", []byte("six")); err == nil {
		t.Error("it follows a link out of the workspace")
	}
}
