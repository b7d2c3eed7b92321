package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// A probe removes the directories that killed probes left behind, but not those in use and
// not other directories.
func TestWhatAKilledProbeLeftIsRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	at := func(name string) string { return filepath.Join(temp, name) }
	for _, name := range []string{probePrefix + "left", probePrefix + "full", "lilac-other", "aside"} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(at(probePrefix+"full"), "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at(probePrefix+"file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at("aside"), at(probePrefix+"link")); err != nil {
		t.Fatal(err)
	}
	used, release, err := probeDir()
	if err != nil {
		t.Fatal(err)
	}
	second, releaseSecond, err := probeDir()
	if err != nil {
		t.Fatal(err)
	}
	for path, stays := range map[string]bool{
		at(probePrefix + "left"): false, at(probePrefix + "full"): true, at(probePrefix + "file"): true, at(probePrefix + "link"): true,
		at("lilac-other"): true, at("aside"): true, used: true, second: true,
	} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, and it should be there: %t", path, err, stays)
		}
	}
	release()
	releaseSecond()
	for _, path := range []string{used, second} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}
