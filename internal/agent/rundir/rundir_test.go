package rundir_test

import (
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/agent/rundir"
)

func open(t *testing.T, data string) *rundir.Dir {
	t.Helper()
	d, err := rundir.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	data := t.TempDir()
	killed := open(t, data)
	if err := os.WriteFile(filepath.Join(killed.Path, "tools.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := open(t, data)
	if exists(t, killed.Path) || !exists(t, next.Path) {
		t.Error("the directory of the killed process is still there, or the new one is not")
	}
	if info, err := os.Stat(next.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info.Mode(), err)
	}
	for range 2 {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}
	if exists(t, next.Path) || exists(t, filepath.Join(data, "runtime")) {
		t.Error("something is left after Close")
	}
}

// A note that somebody changed must not make us remove what is not ours.
func TestNothingElseIsRemoved(t *testing.T) {
	place := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", place)
	other := filepath.Join(place, "other")
	ours := filepath.Join(place, "lilac-run-1")
	for _, dir := range []string{other, ours} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(place, "lilac-run-2")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	for _, note := range []string{other, link, ours + "/../other", "lilac-run-1", "", "/"} {
		data := t.TempDir()
		if err := os.WriteFile(filepath.Join(data, "runtime"), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		d := open(t, data)
		if !exists(t, other) || !exists(t, ours) || !exists(t, link) {
			t.Fatalf("the note %q made it remove something", note)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server that root ran leaves a note that ours cannot read.
func TestANoteThatCannotBeReadIsReplaced(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	data := t.TempDir()
	note := filepath.Join(data, "runtime")
	if err := os.Mkdir(note, 0o700); err != nil { // also root cannot read that as a file
		t.Fatal(err)
	}
	d := open(t, data)
	if got, err := os.ReadFile(note); err != nil || string(got) != d.Path {
		t.Errorf("the note is %q, %v", got, err)
	}
	if err := d.Close(); err != nil || exists(t, note) {
		t.Errorf("something is left after Close: %v", err)
	}
}

// A process whose data directory was taken from it must not undo what the next one
// on that path noted.
func TestTheNoteOfAnotherProcessStays(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	data := t.TempDir()
	note := filepath.Join(data, "runtime")
	first := open(t, data)
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	second := open(t, data)
	if err := first.Close(); err != nil || !exists(t, note) || exists(t, first.Path) {
		t.Errorf("after the first one's end: %v, the note is there: %v", err, exists(t, note))
	}
	if err := second.Close(); err != nil || exists(t, note) {
		t.Errorf("control: after its own end: %v", err)
	}
}
