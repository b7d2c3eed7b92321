// Package rundir provides a private directory for the sockets of the running program
// and for other files that commands of the agent may see. It is separate from the data
// directory, which they must not see.
//
// [Open] removes the directory that a killed process left behind. Its caller must hold
// the lock of the data directory, so only one process uses a [Dir] at a time.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/osfile"
)

const (
	// prefix begins the name of each directory.
	prefix = "lilac-run-"
	// noteName is the file in the data directory that holds the path.
	noteName = "runtime"
)

// Dir is a private directory (0700).
type Dir struct {
	Path string
	note string
}

// Open creates a directory below XDG_RUNTIME_DIR, or else below the system's temporary
// directory, and removes the directory of the previous process.
func Open(dataDir string) (*Dir, error) {
	d := &Dir{note: filepath.Join(dataDir, noteName)}
	if err := d.removeEarlier(); err != nil {
		return nil, err
	}
	var err error
	if d.Path, err = os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), prefix); err != nil {
		if d.Path, err = os.MkdirTemp("", prefix); err != nil {
			return nil, fmt.Errorf("make a directory for sockets in %s, which TMPDIR names, or in XDG_RUNTIME_DIR: %w", os.TempDir(), err)
		}
	}
	if err := os.WriteFile(d.note, []byte(d.Path), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("note the directory of the sockets: %w", err), os.Remove(d.Path))
	}
	return d, nil
}

// removeEarlier removes the directory that the note names, if its name and its owner
// show that an earlier process of this user created it.
func (d *Dir) removeEarlier() error {
	data, err := os.ReadFile(d.note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil { // the note belongs to another user, so its directory does, too
		if err := os.Remove(d.note); err != nil {
			return fmt.Errorf("remove the note of an earlier process: %w", err)
		}
		return nil
	}
	path := string(data)
	if filepath.Clean(path) != path || !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(path), prefix) {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return nil // it is gone
	}
	if uid, _, ok := osfile.Owner(info); ok && uid != os.Getuid() {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove the sockets of an earlier process: %w", err)
	}
	return nil
}

// Close removes the directory, and the note unless another process has replaced it. It
// may be called twice.
func (d *Dir) Close() error {
	err := os.RemoveAll(d.Path)
	if data, unread := os.ReadFile(d.note); unread != nil || string(data) != d.Path {
		return err
	}
	return errors.Join(err, os.Remove(d.note))
}
