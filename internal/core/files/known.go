package files

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"lilac/internal/engine/db"
)

// KnownFiles keeps the reported state of files, so that the next start finds the changes
// that happened while the process was down.
type KnownFiles interface {
	// KnownFiles returns the files of a source. known is false if the source had other
	// paths, or if its first scan did not end.
	KnownFiles(q db.Queryer, source, scope string) (files map[string]Stamp, known bool, err error)
	// ForgetFiles removes a source, and MarkScanned records the end of its first
	// scan.
	ForgetFiles(tx *db.Tx, source string) error
	MarkScanned(tx *db.Tx, source, scope string) error
	// PutWatchedFile saves a file, and DeleteWatchedFile removes it.
	PutWatchedFile(tx *db.Tx, source, path string, s Stamp) error
	DeleteWatchedFile(tx *db.Tx, source, path string) error
	// KeepSources removes all sources that are not listed.
	KeepSources(tx *db.Tx, names []string) error
}

// saveBatch is the number of files per transaction after the first scan.
const saveBatch = 500

// scope identifies the paths of the source. A source with other paths starts anew.
func (s Source) scope() string {
	paths := make([]string, len(s.Patterns))
	for i, p := range s.Patterns {
		paths[i] = p.Base + "/" + p.glob
	}
	return strings.Join(paths, "\n")
}

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
