package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// touchInterval is the minimum time between two updates of the modification time of a
// referenced file.
const touchInterval = 24 * time.Hour

// Swept is the result of a sweep, in numbers of files.
type Swept struct {
	Kept, Removed int
	// Bytes is the total size of the removed files.
	Bytes int64
}

// Sweep removes the files that have had no reference for at least age. referenced returns
// the set of the given names that have references.
//
// The modification time of a file is the time of its last Put, or at most touchInterval
// before a sweep last found a reference to it. Therefore, a new file without a reference is
// kept, and a later sweep removes the file if the process crashed before it wrote the
// reference.
func (b *Blobs) Sweep(ctx context.Context, now time.Time, age time.Duration, referenced func(names []string) (map[string]bool, error)) (out Swept, err error) {
	shards, err := os.ReadDir(b.dir)
	if err != nil {
		return out, fmt.Errorf("list blobs: %w", err)
	}
	for _, shard := range shards {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if !shard.IsDir() {
			continue
		}
		if err := b.sweepShard(filepath.Join(b.dir, shard.Name()), now, age, referenced, &out); err != nil {
			return out, err
		}
	}
	if b.bucket != nil {
		if err := b.sweepBucket(ctx, now, age, referenced, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (b *Blobs) sweepShard(dir string, now time.Time, age time.Duration, referenced func([]string) (map[string]bool, error), out *Swept) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), putPrefix) {
			names = append(names, e.Name())
		}
	}
	live, err := referenced(names)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if live[e.Name()] {
			if err := touch(path, now, min(touchInterval, age/2)); err != nil {
				return err
			}
			out.Kept++
			continue
		}
		size, removed, err := b.removeOld(path, now.Add(-age))
		switch {
		case err != nil:
			return err
		case removed:
			out.Removed, out.Bytes = out.Removed+1, out.Bytes+size
		default:
			out.Kept++
		}
	}
	return nil
}

// touch sets the modification time of a file to now if it is more than older in the past.
func touch(path string, now time.Time, older time.Duration) error {
	info, err := os.Stat(path)
	if err == nil && info.ModTime().Before(now.Add(-older)) {
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		return fmt.Errorf("renew blob: %w", err)
	}
	return nil
}

// removeOld removes a file that was last modified before a time. It holds the lock from the
// check to the removal, so that no concurrent Put relies on the file.
func (b *Blobs) removeOld(path string, before time.Time) (size int64, removed bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("look at blob: %w", err)
	}
	if !info.Mode().IsRegular() || !info.ModTime().Before(before) {
		return 0, false, nil
	}
	if err := os.Remove(path); err != nil {
		return 0, false, fmt.Errorf("remove blob: %w", err)
	}
	return info.Size(), true, nil
}
