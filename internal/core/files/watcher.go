package files

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// NewWatcher opens a watcher of the system. Its errors say which limit of the machine is
// reached and how to raise it.
func NewWatcher() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, explain(err, hasFreeDescriptor())
	}
	return w, nil
}

// explain adds to the error of a new watcher what to do. The system reports EMFILE for two
// limits; if the process can still open a file, it is the one of the user.
func explain(err error, freeDescriptor bool) error {
	switch {
	case errors.Is(err, syscall.EMFILE) && freeDescriptor:
		return fmt.Errorf("the limit of inotify instances of this user is reached; raise the sysctl fs.inotify.max_user_instances, or end other programs that watch files: %w", err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("the limit of open files of this process is reached; raise it (ulimit -n, or LimitNOFILE in the systemd unit): %w", err)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("the limit of open files of this machine is reached; raise the sysctl fs.file-max: %w", err)
	}
	return fmt.Errorf("open watcher: %w", err)
}

func hasFreeDescriptor() bool {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return false
	}
	_ = f.Close() // nothing was written
	return true
}
