package config

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheMemoryIsWhereCommandsSeeNothing(t *testing.T) {
	dir := t.TempDir()
	for path, ok := range map[string]bool{filepath.Join(dir, "notes"): true, filepath.Join(dir, "work", "notes"): false, dir: false} {
		c := Default()
		c.Workspace, c.Memory.Dir = filepath.Join(dir, "work"), path
		err := checker{c}.checkMemory()
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "could read the notes of others") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
