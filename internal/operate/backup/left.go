package backup

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempPrefix begins the names of the directories in which the database is copied.
const tempPrefix = ".lilac-backup-"

// removeLeft removes what backups that were killed left in a directory: each is a
// copy of the whole database. One that runs holds its lock.
func removeLeft(dir string) {
	entries, _ := os.ReadDir(dir) // the backup itself tells what is wrong with it
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		temp := filepath.Join(dir, e.Name())
		if lock, ok := lockTemp(temp); ok {
			_ = os.RemoveAll(temp) // if it cannot be removed, it is in nobody's way
			_ = lock.Close()
		}
	}
}

// lockTemp takes such a directory for this process, if no other one has it. The kernel
// gives it back however the process ends.
func lockTemp(temp string) (lock *os.File, ok bool) {
	lock, err := os.OpenFile(temp, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = lock.Close()
		return nil, false
	}
	return lock, true
}
