package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
)

const (
	// sizeWithin bounds how long [Blobs.Size] waits for the bucket.
	sizeWithin = 30 * time.Second
	// maxFetched bounds a blob that is read from the bucket, in bytes. It is above every limit for
	// files that can be set.
	maxFetched = 1 << 30
	// probeName is the name of an object that does not exist.
	probeName = "probe"
)

// Bucket holds blobs outside of this machine, by the hexadecimal hash of their content. Package
// bucket implements it.
type Bucket interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	Delete(ctx context.Context, name string) error
	List(ctx context.Context, page func([]bucket.Object) error) error
}

// InBucket reports whether the blobs are in a bucket.
func (b *Blobs) InBucket() bool { return b.bucket != nil }

// Healthy reports why the bucket cannot be used; without one, it returns nil.
func (b *Blobs) Healthy(ctx context.Context) error {
	if b.bucket == nil {
		return nil
	}
	_, err := b.bucket.Get(ctx, probeName, 1)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// fetch reads a blob from the bucket, and keeps a copy.
func (b *Blobs) fetch(ctx context.Context, name string) ([]byte, error) {
	data, err := b.bucket.Get(ctx, name, maxFetched)
	if fault.KindOf(err) == fault.NotFound {
		return nil, fault.Wrap(fault.NotFound, err, "The stored file %s does not exist.", name)
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fault.New(fault.Internal, "The stored file %s in the bucket is damaged.", name)
	}
	_ = b.keep(name, data) // a full disk prevents the copy, not the reading
	return data, nil
}

// Adopt copies the blobs of a directory that the store does not have: those from before the blobs
// moved to another directory or to a bucket. After an interruption, it can be repeated. It returns
// the number of copied blobs, and leaves those in the directory as they are.
func (b *Blobs) Adopt(ctx context.Context, dir string) (copied int, err error) {
	there := map[string]bool{}
	if b.bucket != nil {
		err := b.bucket.List(ctx, func(objects []bucket.Object) error {
			for _, o := range objects {
				there[o.Key] = true
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	} else if filepath.Clean(dir) == filepath.Clean(b.dir) {
		return 0, nil
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case path == dir && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.Type().IsRegular() || there[name]:
			return nil
		default:
			if _, is := blobName(BlobPrefix + name); !is || b.bucket == nil && b.has(name) {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
				return nil // damaged; doctor reports it
			}
			copied++
			if b.bucket != nil {
				return b.bucket.Put(ctx, name, data)
			}
			return b.keep(name, data)
		}
	})
	if err != nil {
		return copied, fmt.Errorf("copy stored files: %w", err)
	}
	return copied, nil
}

func (b *Blobs) has(name string) bool {
	_, err := os.Stat(filepath.Join(b.dir, name[:2], name))
	return err == nil
}

// sweepBucket removes the objects that have no reference, are older than age, and have no copy
// here: copies are younger than the last reference that a sweep has found.
func (b *Blobs) sweepBucket(ctx context.Context, now time.Time, age time.Duration, referenced func([]string) (map[string]bool, error), out *Swept) error {
	return b.bucket.List(ctx, func(objects []bucket.Object) error {
		var names []string
		var old []bucket.Object
		for _, o := range objects {
			if _, is := blobName(BlobPrefix + o.Key); is && o.Modified.Before(now.Add(-age)) && !b.has(o.Key) {
				names, old = append(names, o.Key), append(old, o)
			}
		}
		live, err := referenced(names)
		if err != nil {
			return err
		}
		for _, o := range old {
			if live[o.Key] {
				continue
			}
			if err := b.bucket.Delete(ctx, o.Key); err != nil {
				return err
			}
			out.Removed, out.Bytes = out.Removed+1, out.Bytes+o.Size
		}
		return nil
	})
}
