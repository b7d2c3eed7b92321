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
)

const lockName = "lilac.lock"

// dirLock is a directory that is taken. Of its two locks the one on the directory
// itself is left when its files are removed under a running process.
type dirLock struct{ file, dir *os.File }

// lockDir takes the directory for this process. The kernel gives the locks back
// when the process ends, however it ends, so a stale file never blocks.
func lockDir(dir string) (lock dirLock, err error) {
	defer func() {
		if err != nil {
			_ = lock.release() // nothing was done under it
		}
	}()
	if lock.dir, err = os.Open(dir); err != nil {
		return lock, unopened(dir, err)
	}
	// Network file systems lock no directories; there the file alone has to do.
	if errors.Is(tryLock(lock.dir), syscall.EWOULDBLOCK) {
		return lock, inUse(dir)
	}
	if lock.file, err = openLock(dir); err != nil {
		return lock, err
	}
	if err := tryLock(lock.file); errors.Is(err, syscall.EWOULDBLOCK) {
		return lock, inUse(dir)
	} else if err != nil {
		return lock, fmt.Errorf("lock data directory: %w", err)
	}
	if err := writePID(lock.file); err != nil {
		return lock, unwritten(fmt.Errorf("write lock file: %w", err))
	}
	return lock, nil
}

func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// openLock opens the file of the lock, and makes it where there is none. One that root
// makes belongs to whom the directory belongs to: root looks at the data of a service,
// which has to be able to start afterwards.
func openLock(dir string) (*os.File, error) {
	path, made := filepath.Join(dir, lockName), true
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		made = false
		f, err = os.OpenFile(path, os.O_RDWR, 0)
	}
	if err != nil {
		return nil, unopened(path, err)
	}
	if info, err := os.Stat(dir); made && err == nil && os.Geteuid() == 0 {
		if at, ok := info.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(at.Uid), int(at.Gid)) // root of a container may not; this process can do without
		}
	}
	return f, nil
}

// release gives the directory back. To close the files alone would leave that to
// a child that is just being started: until it becomes another program it has a
// copy of every open file.
func (l dirLock) release() error {
	var errs []error
	for _, f := range []*os.File{l.file, l.dir} {
		if f == nil {
			continue
		}
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		if f == l.dir {
			err = nil // see lockDir
		}
		errs = append(errs, err, f.Close())
	}
	return errors.Join(errs...)
}

// unopened says why in the message: doctor shows nothing else of an error.
func unopened(path string, err error) error {
	if errors.Is(err, syscall.EROFS) {
		return fault.Wrap(fault.Unavailable, syscall.EROFS, "%s cannot be opened: its file system is read-only. Look at the disk, and at how it is mounted.", path)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err // the message has the path
	}
	return fault.New(fault.Denied, "%s cannot be opened: %s. Look at its owner and mode.", path, err)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

func inUse(dir string) error {
	noted, _ := os.ReadFile(filepath.Join(dir, lockName)) // it may have been removed
	pid := strings.TrimSpace(string(noted))
	if pid == "" {
		pid = "unknown"
	}
	return &fault.Error{Kind: fault.Conflict, Code: "data_directory_in_use", Message: fmt.Sprintf(
		"The data directory %s is in use by another process (pid %s). Stop it or choose another directory.", dir, pid)}
}
