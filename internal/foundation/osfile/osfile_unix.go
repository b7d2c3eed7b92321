//go:build unix

package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// NonBlocking is a flag for [os.OpenFile]: opening a named pipe does not wait for its
// other end.
const NonBlocking = syscall.O_NONBLOCK

// TryLock locks a file or directory for this process without waiting. If another
// process holds the lock, it returns [ErrLocked]. The kernel releases the lock when the
// process ends for any reason.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// Unlock releases a lock. Closing the file is not enough on Unix: a child process that
// is being started has a copy of every open file until it calls exec.
func Unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// IsFull reports whether an error means that there is no space left on a disk, or in a quota.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// OpenDir opens a directory, but no symbolic link to one.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
}

// LockDir is like [OpenDir] and [TryLock]. Closing the file releases the lock.
func LockDir(path string) (*os.File, error) {
	dir, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	if err := TryLock(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// SyncDir waits until the changes of a directory's entries (files that were created, renamed, or
// removed) are on the disk.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Owner returns the user and the group of a file; ok is false if the system has none.
func Owner(info fs.FileInfo) (uid, gid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(stat.Uid), int(stat.Gid), true
}

// HasModes reports whether a file's mode says who may access the file.
const HasModes = true

// CanWrite returns an error unless this user may create files in a directory. On a
// read-only file system, it is syscall.EROFS.
func CanWrite(dir string) error {
	const writeAndEnter = 3 // W_OK|X_OK of access(2)
	return syscall.Access(dir, writeAndEnter)
}

// Space returns the space on a path's file system that this user may still use, in
// bytes, and the type of the file system as in statfs(2), or 0 where types have no
// numbers.
func Space(path string) (free uint64, kind int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, 0, err
	}
	return uint64(st.Bavail) * uint64(st.Bsize), int64(st.Type), nil
}

// MaxOpen returns how many files this process may open; ok is false if the system sets
// no such limit.
func MaxOpen() (limit uint64, ok bool) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, false
	}
	return uint64(files.Cur), true
}

// Identity names an open file among all files of the running kernel, so that two processes
// can tell whether they mean the same lock, even in different containers. It is "" if the
// kernel does not tell when it was started.
func Identity(f *os.File) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", nil // not Linux
	}
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), stat.Dev, stat.Ino), nil
}
