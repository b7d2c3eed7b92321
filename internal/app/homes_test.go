package app

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// homesWorld is a data directory and a workspace with the settings of a common home. The
// session "old" was created before there were homes.
func homesWorld(t *testing.T) (data, workspace string, before func(string, time.Time) (bool, error)) {
	t.Helper()
	data, workspace = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		".gitconfig": "[user]\n\tname = Ada\n", ".config/tool/settings": "x", ".cache/large": "y", "notes.txt": "z", ".git/config": "w",
	} {
		path := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(workspace, ".profile")); err != nil {
		t.Fatal(err)
	}
	return data, workspace, func(id string, _ time.Time) (bool, error) { return id == "old", nil }
}

func has(t *testing.T, dir, name string) bool {
	t.Helper()
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// Sessions from before keep the settings of the common home, as they were at the first start.
// New ones begin with none, so what one session left there reaches no other.
func TestSessionsFromBeforeKeepTheirSettings(t *testing.T) {
	data, workspace, before := homesWorld(t)
	if _, err := openHomes(filepath.Join(data, "homes"), workspace, before); err != nil {
		t.Fatal(err)
	}
	// A session that changes the old place afterwards changes no home.
	if err := os.WriteFile(filepath.Join(workspace, ".gitconfig"), []byte("[alias]\n\tst = !evil\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHomes(filepath.Join(data, "homes"), workspace, before) // nor after a restart
	if err != nil {
		t.Fatal(err)
	}
	old, err := h.of("old")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(old, ".gitconfig")); err != nil || string(text) != "[user]\n\tname = Ada\n" {
		t.Errorf("%q, %v", text, err)
	}
	if !has(t, old, ".config/tool/settings") {
		t.Error("a directory of settings is missing")
	}
	for _, name := range []string{".cache", "notes.txt", ".git", ".profile"} {
		if has(t, old, name) {
			t.Errorf("%s is in the home", name)
		}
	}
	fresh, err := h.of("new")
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(fresh); err != nil || len(entries) != 0 {
		t.Errorf("a new session begins with %v, %v", entries, err)
	}
	if again, err := h.of("new"); again != fresh || err != nil {
		t.Errorf("%s, %v", again, err)
	}
	// The originals stay.
	for _, name := range []string{".gitconfig", ".cache/large", "notes.txt"} {
		if !has(t, workspace, name) {
			t.Errorf("%s is gone from the workspace", name)
		}
	}
}

// A process that is killed while it keeps the settings does so again at the next start.
func TestKeepingTheSettingsIsResumed(t *testing.T) {
	data, workspace, before := homesWorld(t)
	dir := filepath.Join(data, "homes")
	for _, path := range []string{partialPrefix + "1/.gitconfig", legacyDir + "/half"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := openHomes(filepath.Join(data, "homes"), workspace, before)
	if err != nil {
		t.Fatal(err)
	}
	old, err := h.of("old")
	if err != nil || !has(t, old, ".gitconfig") || has(t, old, "half") {
		t.Errorf("%s is incomplete: %v", old, err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, partialPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestHomesOfDeletedSessionsAreRemoved(t *testing.T) {
	data, workspace, before := homesWorld(t)
	h, err := openHomes(filepath.Join(data, "homes"), workspace, before)
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, id := range []string{"kept", "deleted", "../../escape"} {
		dir, err := h.of(id)
		if err != nil || filepath.Dir(dir) != filepath.Join(data, "homes") {
			t.Fatal(dir, err)
		}
		dirs = append(dirs, dir)
	}
	if err := h.sweep(func(id string) (bool, error) { return id == "kept", nil }); err != nil {
		t.Fatal(err)
	}
	if !has(t, dirs[0], ".") || has(t, dirs[1], ".") || !has(t, dirs[2], ".") || !has(t, filepath.Join(data, "homes"), legacyDir) {
		t.Errorf("wrong homes are left")
	}
}
