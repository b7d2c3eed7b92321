package osfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// NonBlocking is a flag for [os.OpenFile]. Windows needs none.
const NonBlocking = 0

// lockedByte is the offset of the byte that a lock covers, as low and high word.
// Windows forbids other processes to read a locked range, and the holder's process id
// at the beginning of the file must stay readable.
var lockedByte = windows.Overlapped{Offset: 0xfffffffe, OffsetHigh: 0x7fffffff}

// TryLock locks a file for this process without waiting. If another process holds the
// lock, it returns [ErrLocked]. Windows cannot lock directories and returns another
// error for them. The kernel releases the lock when the process ends for any reason.
func TryLock(f *os.File) error {
	at := lockedByte
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// Unlock releases a lock.
func Unlock(f *os.File) error {
	at := lockedByte
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

// IsFull reports whether an error means that there is no space left on a disk, or in a quota.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// OpenDir opens a directory, but no symbolic link to one.
func OpenDir(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// LockDir locks a directory for this process without waiting, by a file in it. If another process
// holds the lock, it returns [ErrLocked]. The directory cannot be removed before the file is closed,
// which releases the lock.
func LockDir(path string) (*os.File, error) {
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	f, err := dir.OpenFile("lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := TryLock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// SyncDir does nothing: Windows flushes no directories. NTFS has a journal of what changes in them.
func SyncDir(string) error { return nil }

// Owner returns the user and the group of a file; ok is false, because Windows has no
// numbers for them.
func Owner(fs.FileInfo) (uid, gid int, ok bool) { return 0, 0, false }

// HasModes reports whether a file's mode says who may access the file. On Windows,
// access lists do: files in a user's profile are private by default.
const HasModes = false

// CanWrite returns an error unless this user may create files in a directory.
func CanWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".lilac-write-test-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Space returns the space on a path's volume that this user may still use, in bytes.
// kind is 0, because Windows has no numbers for file systems.
func Space(path string) (free uint64, kind int64, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return free, 0, err
}

// MaxOpen returns how many files this process may open; ok is false, because Windows
// sets no such limit.
func MaxOpen() (limit uint64, ok bool) { return 0, false }

// Identity returns "": Windows does not tell when it was started.
func Identity(*os.File) (string, error) { return "", nil }
