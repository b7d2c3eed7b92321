package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// probePrefix begins the names of the directories in which sandboxes are tried.
const probePrefix = "lilac-sandbox-probe-"

// probeDir makes a directory to try a sandbox in, and removes what probes left there
// that were killed. Release removes it.
func probeDir() (dir string, release func(), err error) {
	const tries = 3 // another process may take a new one for such a leftover
	removeLeft(os.TempDir())
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

// removeLeft removes the empty directories of probes that were killed: those of this
// user that no process holds. What is not empty is no such one.
func removeLeft(temp string) {
	entries, _ := os.ReadDir(temp) // the probe itself tells what is wrong with it
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), probePrefix) {
			continue
		}
		dir := filepath.Join(temp, e.Name())
		if lock, held := lockDir(dir); held {
			_ = syscall.Rmdir(dir) // if it cannot be removed, it is in nobody's way
			_ = lock.Close()
		}
	}
}

// lockDir takes a directory of this user for this process, if no other one has it. The
// kernel gives it back however the process ends.
func lockDir(dir string) (lock *os.File, held bool) {
	lock, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false
	}
	info, err := lock.Stat()
	if err == nil {
		stat, ok := info.Sys().(*syscall.Stat_t)
		held = ok && int(stat.Uid) == os.Getuid() && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	}
	// It may have been removed before it was locked.
	if now, err := os.Lstat(dir); !held || err != nil || !os.SameFile(info, now) {
		_ = lock.Close()
		return nil, false
	}
	return lock, true
}
