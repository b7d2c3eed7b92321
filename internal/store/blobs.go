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
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// BlobPrefix is the prefix of every reference to a blob. The hexadecimal SHA-256 of the
// content follows.
const BlobPrefix = "blob:sha256:"

// blobsDir is the name of the directory of blobs in the data directory.
const blobsDir = "blobs"

// putPrefix is the prefix of the names of temporary files.
const putPrefix = ".put-"

// DefaultMaxBlob is the default maximum size of a blob, in bytes. It is enough for the
// attachments that surfaces allow, and small enough to read a blob into memory.
const DefaultMaxBlob = 32 << 20

// Blobs stores large data in files that are named by the hash of their content, so that the
// bus carries only references. Storing the same data again returns the same reference.
//
// With a bucket, every file is there, and the directory has copies of those that this process has
// stored or read.
type Blobs struct {
	dir    string
	bucket Bucket // nil: the directory has everything
	// max is the maximum size for Put. Get also reads larger blobs, which were stored
	// under a higher limit.
	max int64
	// mu prevents a sweep from removing a file that a concurrent Put has just found.
	// Put holds the read lock; the sweep takes the write lock for each file.
	mu sync.RWMutex
}

// BlobsDir returns the directory of blobs in a data directory.
func BlobsDir(dataDir string) string { return filepath.Join(dataDir, blobsDir) }

// OpenBlobs opens the blob store in a directory, and creates the directory if necessary.
// bucket is nil, or the bucket that has all blobs. A maxSize of zero means [DefaultMaxBlob].
func OpenBlobs(dir string, bucket Bucket, maxSize int64) (*Blobs, error) {
	if err := osfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	if maxSize <= 0 {
		maxSize = DefaultMaxBlob
	}
	return &Blobs{dir: dir, bucket: bucket, max: maxSize}, nil
}

// Put stores data and returns its reference. When it returns, the data is in the bucket, if there
// is one, and on disk: Put writes and syncs a temporary file, renames it, and syncs the directory.
func (b *Blobs) Put(ctx context.Context, data []byte) (ref string, err error) {
	if int64(len(data)) > b.max {
		return "", fault.New(fault.TooLarge, "The file has %d bytes; at most %d are kept.", len(data), b.max)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	ref = BlobPrefix + name
	if b.bucket != nil {
		// Also if it is there: its age begins anew, so that no sweep removes it before the caller
		// has written its reference.
		if err := b.bucket.Put(ctx, name, data); err != nil {
			return "", err
		}
	}
	return ref, b.keep(name, data)
}

// keep stores data in the directory.
func (b *Blobs) keep(name string, data []byte) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if _, err := b.read(name); err == nil {
		// Restart the age of the blob, so that a sweep does not remove it before the
		// caller has written its reference.
		now := time.Now()
		return wrap("renew blob", os.Chtimes(filepath.Join(b.dir, name[:2], name), now, now))
	}
	dir := filepath.Join(b.dir, name[:2])
	if err := osfile.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make blob directory: %w", err)
	}
	if err := writeSynced(dir, name, data); err != nil {
		return fmt.Errorf("write blob: %w", err)
	}
	return wrap("sync blob directory", osfile.SyncDir(b.dir))
}

// Get returns the data of a reference. It verifies the hash and returns an error if the
// file is damaged.
func (b *Blobs) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, ok := blobName(ref)
	if !ok {
		return nil, fault.New(fault.Invalid, "%q is not a reference to a stored file.", ref)
	}
	data, err := b.read(name)
	if err == nil || b.bucket == nil {
		return data, err
	}
	return b.fetch(ctx, name)
}

// blobName returns the file name in a reference, and false if ref is not a reference.
func blobName(ref string) (string, bool) {
	name, ok := strings.CutPrefix(ref, BlobPrefix)
	return name, ok && len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// Size returns the size of a blob in bytes, or 0 if it does not exist.
func (b *Blobs) Size(ref string) int64 {
	name, ok := blobName(ref)
	if !ok {
		return 0
	}
	info, err := os.Stat(filepath.Join(b.dir, name[:2], name))
	switch {
	case err == nil:
		return info.Size()
	case b.bucket == nil:
		return 0
	}
	// Whoever asks for the size reads the file next.
	ctx, cancel := context.WithTimeout(context.Background(), sizeWithin)
	defer cancel()
	data, err := b.fetch(ctx, name)
	if err != nil {
		return 0
	}
	return int64(len(data))
}

func (b *Blobs) read(name string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(b.dir, name[:2], name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.NotFound, err, "The stored file %s does not exist.", name)
	} else if err != nil {
		return nil, fmt.Errorf("read blob: %w", err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name {
		return nil, fault.New(fault.Internal, "The stored file %s is damaged.", name)
	}
	return data, nil
}

// writeSynced creates dir/name atomically: after a crash, the file is complete or missing.
func writeSynced(dir, name string, data []byte) (err error) {
	f, err := os.CreateTemp(dir, putPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if info, err := os.Stat(dir); err == nil {
		osfile.Adopt(f, info)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil { // Windows renames no open file
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	return osfile.SyncDir(dir)
}
