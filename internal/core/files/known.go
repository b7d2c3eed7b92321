package files

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"lilac/internal/engine/db"
)

// saveBatch is the number of files per transaction after the first scan.
const saveBatch = 500

func stampOf(info fs.FileInfo) Stamp {
	return Stamp{Size: info.Size(), Modified: info.ModTime().UnixNano()}
}

// loadKnown loads the reported state of a source.
func (s *Service) loadKnown(ctx context.Context, b *sourceFiles) error {
	if b.loaded || b.source.SkipMissed {
		return nil
	}
	err := s.o.DB.Read(ctx, func(q db.Queryer) error {
		files, known, err := s.o.Known.KnownFiles(q, b.source.Name, b.source.scope())
		if known {
			b.known, b.loaded = files, true
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read known files: %w", err)
	}
	return nil
}

// saveKnown saves the result of the first scan of a source. If the process ends before
// that, the next start scans for the first time again.
func (s *Service) saveKnown(ctx context.Context, b *sourceFiles) error {
	if b.loaded || b.source.SkipMissed {
		return nil
	}
	name := b.source.Name
	keep := func(fn func(tx *db.Tx) error) error {
		if err := s.o.DB.Update(ctx, fn); err != nil {
			return fmt.Errorf("save known files: %w", err)
		}
		return nil
	}
	if err := keep(func(tx *db.Tx) error { return s.o.Known.ForgetFiles(tx, name) }); err != nil {
		return err
	}
	for paths := range slices.Chunk(slices.Sorted(maps.Keys(b.known)), saveBatch) {
		err := keep(func(tx *db.Tx) error {
			for _, path := range paths {
				if err := s.o.Known.PutWatchedFile(tx, name, path, b.known[path]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return keep(func(tx *db.Tx) error { return s.o.Known.MarkScanned(tx, name, b.source.scope()) })
}

// recordOf returns the function that saves the state of a stable file.
func (s *Service) recordOf(b *sourceFiles, path string, info fs.FileInfo) func(tx *db.Tx) error {
	switch {
	case b.source.SkipMissed, info != nil && !b.hasRoom(path):
		return func(*db.Tx) error { return nil }
	case info == nil:
		return func(tx *db.Tx) error { return s.o.Known.DeleteWatchedFile(tx, b.source.Name, path) }
	}
	return func(tx *db.Tx) error { return s.o.Known.PutWatchedFile(tx, b.source.Name, path, stampOf(info)) }
}
