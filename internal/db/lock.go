package db

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lilac/internal/fault"
)

const lockName = "lilac.lock"

// lockDir takes the directory for this process. The kernel gives the lock back
// when the process ends, however it ends, so a stale file never blocks.
func lockDir(dir string) (*os.File, error) {
	f, err := openLock(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, inUse(dir, f)
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(unwritten(fmt.Errorf("write lock file: %w", err)), f.Close())
	}
	return f, nil
}

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

// unlockDir gives the directory back. To close the file alone would leave that to
// a child that is just being started: until it becomes another program it has a
// copy of every open file.
func unlockDir(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
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

func inUse(dir string, f *os.File) error {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid := strings.TrimSpace(string(buf[:n]))
	if pid == "" {
		pid = "unknown"
	}
	return &fault.Error{Kind: fault.Conflict, Code: "data_directory_in_use", Message: fmt.Sprintf(
		"The data directory %s is in use by another process (pid %s). Stop it or choose another directory.", dir, pid)}
}
