package db

import (
	"fmt"
	"os"
	"path/filepath"

	"lilac/internal/foundation/fault"
)

// location is an open file and the path by which the next start looks for it.
type location struct {
	path string
	file os.FileInfo
}

// recordLocations records the open files by path. It must not open them: closing a
// second descriptor of the database would release SQLite's locks.
func (e *sqliteEngine) recordLocations(dir string) error {
	for _, path := range []string{e.path, e.path + "-wal", filepath.Join(dir, lockName)} {
		file, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("stat database: %w", err)
		}
		e.locations = append(e.locations, location{path, file})
	}
	return nil
}

// checkLocation returns an error if a file was removed, moved, or replaced: writes to
// it would be lost with this process.
func (e *sqliteEngine) checkLocation() error {
	for _, l := range e.locations {
		if file, err := os.Stat(l.path); err != nil || !os.SameFile(file, l.file) {
			return &fault.Error{
				Kind: fault.Unavailable, Code: "database_away", Err: err,
				Message: "The database was removed or moved while it was open, so nothing more is accepted. Put all of its files back, or stop the server and restore a backup.",
			}
		}
	}
	return nil
}
