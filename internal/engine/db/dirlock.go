package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

const lockName = "lilac.lock"

// makeDir creates the data directory if it does not exist.
func makeDir(dir string) error {
	err := osfile.MkdirAll(dir, 0o700)
	if err == nil {
		return nil
	}
	detail := ""
	if errors.Is(err, fs.ErrPermission) {
		if _, missing := os.Stat(dir); missing == nil {
			return fault.Wrap(fault.Invalid, err, "The data directory %s cannot be opened as user %d. Run this as its owner, or choose another one with --data.", dir, os.Geteuid())
		}
		detail = fmt.Sprintf(" as user %d: change the owner of its parent directory", os.Geteuid())
	}
	return fault.Wrap(fault.Invalid, err, "The data directory %s cannot be created%s; choose another one with --data", dir, detail)
}

// dirLock is a locked data directory. It holds two locks: the lock on the directory
// itself remains if the lock file is removed while the process runs.
type dirLock struct{ file, dir *os.File }

// lockDir locks a directory for this process. The kernel releases the locks when the
// process ends for any reason, so a stale lock file never blocks a start.
func lockDir(dir string) (lock dirLock, err error) {
	defer func() {
		if err != nil {
			_ = lock.release() // nothing was written under it
		}
	}()
	if lock.dir, err = os.Open(dir); err != nil {
		return lock, openFault(dir, err)
	}
	// Network file systems cannot lock directories. The lock file suffices there.
	if errors.Is(osfile.TryLock(lock.dir), osfile.ErrLocked) {
		return lock, inUseFault(dir)
	}
	if lock.file, err = openLockFile(dir); err != nil {
		return lock, err
	}
	if err := osfile.TryLock(lock.file); errors.Is(err, osfile.ErrLocked) {
		return lock, inUseFault(dir)
	} else if err != nil {
		return lock, fmt.Errorf("lock data directory: %w", err)
	}
	if err := writePID(lock.file); err != nil {
		return lock, writeFault(fmt.Errorf("write lock file: %w", err))
	}
	return lock, nil
}

// openLockFile opens or creates the lock file.
func openLockFile(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockName)
	f, err := createFile(path)
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, openFault(path, err)
	}
	return f, nil
}

// createFile creates a file. If root does, the file gets the owner of the directory: after root has
// worked with the data of a service, the service must still be able to start.
func createFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(filepath.Dir(path)); err == nil {
		osfile.Adopt(f, info)
	}
	return f, nil
}

// release unlocks the directory.
func (l dirLock) release() error {
	var errs []error
	for _, f := range []*os.File{l.file, l.dir} {
		if f == nil {
			continue
		}
		err := osfile.Unlock(f)
		if f == l.dir {
			err = nil // may not have been locked, see lockDir
		}
		errs = append(errs, err, f.Close())
	}
	return errors.Join(errs...)
}

// openFault returns the fault of a file that cannot be opened. Its message includes
// the cause, because doctor shows only messages.
func openFault(path string, err error) error {
	if errors.Is(err, syscall.EROFS) {
		return fault.Wrap(fault.Unavailable, syscall.EROFS, "%s cannot be opened: its file system is read-only. Check the disk and how it is mounted.", path)
	}
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = e.Err // the message has the path
	}
	return fault.New(fault.Denied, "%s cannot be opened: %s. Check its owner and mode.", path, err)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

func inUseFault(dir string) error {
	content, _ := os.ReadFile(filepath.Join(dir, lockName)) // it may have been removed
	pid := strings.TrimSpace(string(content))
	if pid == "" {
		pid = "unknown"
	}
	return &fault.Error{Kind: fault.Conflict, Code: "data_directory_in_use", Message: fmt.Sprintf(
		"The data directory %s is in use by another process (pid %s). Stop it or choose another directory.", dir, pid)}
}
