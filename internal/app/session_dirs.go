package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/osfile"
)

// sessionDirs is a directory with one directory for each session.
type sessionDirs struct{ dir string }

// plainSession matches the ids of sessions that can be names of directories.
var plainSession = lazyregexp.New(`^[A-Za-z0-9_-]{1,100}$`)

// path returns the directory of a session, which need not exist.
func (d sessionDirs) path(sessionID string) string {
	if plainSession().MatchString(sessionID) {
		return filepath.Join(d.dir, "s-"+sessionID)
	}
	sum := sha256.Sum256([]byte(sessionID))
	return filepath.Join(d.dir, "h-"+hex.EncodeToString(sum[:16]))
}

// make returns the directory of a session, and creates it if it is missing.
func (d sessionDirs) make(sessionID string) (string, error) {
	dir := d.path(sessionID)
	if err := osfile.MkdirAll(dir, 0o700); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "The directory of the session cannot be created.")
	}
	return dir, nil
}

// sweep removes the directories of sessions that do not exist anymore.
func (d sessionDirs) sweep(exists func(sessionID string) (bool, error)) error {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list directories of sessions: %w", err)
	}
	for _, e := range entries {
		id, plain := strings.CutPrefix(e.Name(), "s-")
		if !plain {
			continue
		}
		there, err := exists(id)
		if err != nil {
			return fmt.Errorf("look up session of a directory: %w", err)
		}
		if !there {
			if err := os.RemoveAll(filepath.Join(d.dir, e.Name())); err != nil {
				return fmt.Errorf("remove directory of a session: %w", err)
			}
		}
	}
	return nil
}
