package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/osfile"
)

// probePrefix is the prefix of the directories in which sandboxes are tried.
const probePrefix = "lilac-sandbox-probe-"

// probeDir creates a directory in which to try a sandbox, and removes the directories that
// killed probes left behind. release removes it.
func probeDir() (dir string, release func(), err error) {
	const tries = 3 // another process may take a new directory for a stale one
	removeStale(os.TempDir())
	for range tries {
		if dir, err = os.MkdirTemp("", probePrefix); err != nil {
			return "", nil, fmt.Errorf("make directory for sandbox probe: %w", err)
		}
		lock, held := lockDir(dir)
		if held {
			return dir, func() {
				_ = os.RemoveAll(dir)
				_ = lock.Close()
			}, nil
		}
		_ = os.Remove(dir)
	}
	return "", nil, fmt.Errorf("make directory for sandbox probe: %s is taken by others", dir)
}

// removeStale removes the directories that killed probes left behind: empty ones of this
// user that no process has locked.
func removeStale(temp string) {
	entries, _ := os.ReadDir(temp) // the probe itself reports errors of it
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), probePrefix) {
			continue
		}
		dir := filepath.Join(temp, e.Name())
		if lock, held := lockDir(dir); held {
			_ = os.Remove(dir) // a directory that stays is harmless
			_ = lock.Close()
		}
	}
}

// lockDir locks a directory of this user, unless another process has locked it. The kernel
// releases the lock when the process ends, in whatever way.
func lockDir(dir string) (lock *os.File, held bool) {
	lock, err := osfile.OpenDir(dir)
	if err != nil {
		return nil, false
	}
	info, err := lock.Stat()
	if err == nil {
		uid, _, known := osfile.Owner(info)
		held = (!known || uid == os.Getuid()) && osfile.TryLock(lock) == nil
	}
	// It may have been removed before it was locked.
	if now, err := os.Lstat(dir); !held || err != nil || !os.SameFile(info, now) {
		_ = lock.Close()
		return nil, false
	}
	return lock, true
}
