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

// KnownFiles remembers what was there when it was told last, so that what changed
// while nobody watched is found at the next start.
type KnownFiles interface {
	// SeenFiles are those of a source; known is false when its paths were others,
	// or when not all of them were looked at yet.
	KnownFiles(q db.Queryer, source, scope string) (files map[string]Stamp, known bool, err error)
	// ForgetFiles forgets a source, AllSeen says that all of its paths were
	// looked at.
	ForgetFiles(tx *db.Tx, source string) error
	MarkScanned(tx *db.Tx, source, scope string) error
	// SeeFile remembers a file as it is, MissFile that it is not there.
	PutWatchedFile(tx *db.Tx, source, path string, s Stamp) error
	DeleteWatchedFile(tx *db.Tx, source, path string) error
	// KeepSources forgets all sources but those.
	KeepSources(tx *db.Tx, names []string) error
}

// saveBatch is how many files one transaction remembers at the first look.
const saveBatch = 500

// scope is what the source watches. With other paths another source begins.
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

// recall fills in what was seen of the files of a source.
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
		return fmt.Errorf("read what was seen of files: %w", err)
	}
	return nil
}

// remember keeps what the first look at a source has found. Until it is over, a
// start is the first one again.
func (s *Service) saveKnown(ctx context.Context, b *sourceFiles) error {
	if b.loaded || b.source.SkipMissed {
		return nil
	}
	name := b.source.Name
	keep := func(fn func(tx *db.Tx) error) error {
		if err := s.o.DB.Update(ctx, fn); err != nil {
			return fmt.Errorf("remember files: %w", err)
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

// notes is what a transaction remembers of a file that rests.
func (s *Service) recordOf(b *sourceFiles, path string, info fs.FileInfo) func(tx *db.Tx) error {
	switch {
	case b.source.SkipMissed, info != nil && !b.hasRoom(path):
		return func(*db.Tx) error { return nil }
	case info == nil:
		return func(tx *db.Tx) error { return s.o.Known.DeleteWatchedFile(tx, b.source.Name, path) }
	}
	return func(tx *db.Tx) error { return s.o.Known.PutWatchedFile(tx, b.source.Name, path, stampOf(info)) }
}
