package db

import (
	"fmt"
	"os"
	"path/filepath"

	"lilac/internal/foundation/fault"
)

// placed is an open file, and the path by which the next start will look for it.
type placed struct {
	path string
	file os.FileInfo
}

// keepPlaces remembers which files are open. They are looked at by their paths: a
// descriptor of the database beside SQLite's would end its locks when it is closed.
func (d *DB) keepPlaces() error {
	for _, path := range []string{d.path, d.path + "-wal", filepath.Join(d.opt.Dir, lockName)} {
		file, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look at database: %w", err)
		}
		d.places = append(d.places, placed{path, file})
	}
	return nil
}

// inPlace says why nothing may be written: what is written into files that were
// removed is gone with this process, and what lies elsewhere no start finds.
func (d *DB) inPlace() error {
	for _, p := range d.places {
		if file, err := os.Stat(p.path); err != nil || !os.SameFile(file, p.file) {
			return &fault.Error{
				Kind: fault.Unavailable, Code: "database_away", Err: err,
				Message: "The database was removed or moved while it was open, so nothing more is accepted. Put all of its files back, or stop the server and restore a backup.",
			}
		}
	}
	return nil
}
