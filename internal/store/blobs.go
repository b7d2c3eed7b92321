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
)

// BlobPrefix begins every reference to a blob.
const BlobPrefix = "blob:sha256:"

// blobsDir is where the files are, in the data directory.
const blobsDir = "blobs"

// putPrefix begins the names of files that are being written.
const putPrefix = ".put-"

// DefaultMaxBlob is the largest file that a blob store takes which names no size:
// enough for what surfaces let people attach, small enough to be read into memory.
const DefaultMaxBlob = 32 << 20

// Blobs keeps large bytes in files named by their content, so that they never
// ride on the bus. Putting the same bytes again is the same blob.
type Blobs struct {
	dir string
	// max bounds what is put; what was put under another bound is still read.
	max int64
	// mu keeps a Put that finds its bytes there and a sweep that removes them
	// apart; the sweep locks it.
	mu sync.RWMutex
}

// OpenBlobs opens (and makes) the blob store in <data>/blobs. A maxSize of
// zero means [DefaultMaxBlob].
func OpenBlobs(dataDir string, maxSize int64) (*Blobs, error) {
	dir := filepath.Join(dataDir, blobsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	if maxSize <= 0 {
		maxSize = DefaultMaxBlob
	}
	return &Blobs{dir: dir, max: maxSize}, nil
}

// Put stores data and returns its reference. It returns when the bytes are on
// disk: written beside, synced, renamed, and the directory synced.
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
	b.mu.RLock()
	defer b.mu.RUnlock()
	if _, err := b.read(name); err == nil {
		// It is put now, whoever put it before.
		now := time.Now()
		if err := os.Chtimes(filepath.Join(b.dir, name[:2], name), now, now); err != nil {
			return "", fmt.Errorf("renew blob: %w", err)
		}
		return ref, nil
	}
	dir := filepath.Join(b.dir, name[:2])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make blob directory: %w", err)
	}
	if err := writeSynced(dir, name, data); err != nil {
		return "", fmt.Errorf("write blob: %w", err)
	}
	if err := syncDir(b.dir); err != nil {
		return "", fmt.Errorf("sync blob directory: %w", err)
	}
	return ref, nil
}

// Get returns the bytes of a reference. Bytes that do not match it are never
// returned.
func (b *Blobs) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, ok := blobName(ref)
	if !ok {
		return nil, fault.New(fault.Invalid, "%q is not a reference to a stored file.", ref)
	}
	return b.read(name)
}

// blobName is the file's name in a reference.
func blobName(ref string) (string, bool) {
	name, ok := strings.CutPrefix(ref, BlobPrefix)
	return name, ok && len(name) == 2*sha256.Size && strings.Trim(name, "0123456789abcdef") == ""
}

// Size is how many bytes a reference stands for, 0 if it stands for none.
func (b *Blobs) Size(ref string) int64 {
	name, ok := blobName(ref)
	if !ok {
		return 0
	}
	info, err := os.Stat(filepath.Join(b.dir, name[:2], name))
	if err != nil {
		return 0
	}
	return info.Size()
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

// writeSynced makes dir/name appear with its full content or not at all.
func writeSynced(dir, name string, data []byte) (err error) {
	f, err := os.CreateTemp(dir, putPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close blob: %w", err)
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
