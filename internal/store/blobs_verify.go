package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lilac/internal/engine/bucket"
	"lilac/internal/engine/db"
)

// refsPage is the number of references to read per query, which bounds the memory.
const refsPage = 1000

// VerifyFiles reads every blob in a directory and reports damaged blobs, and blobs that are
// missing although a reference to them exists, also from the bucket, if there is one. It
// changes nothing.
func (s *Store) VerifyFiles(ctx context.Context, dir string, in Bucket) (bad []string, err error) {
	there := map[string]bool{}
	if in != nil {
		err := in.List(ctx, func(objects []bucket.Object) error {
			for _, o := range objects {
				there[o.Key] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case path == dir && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case len(bad) == maxReported:
			return fs.SkipAll
		}
		if _, is := blobName(BlobPrefix + e.Name()); is && e.Type().IsRegular() {
			if sum, err := hashFile(path); err != nil || sum != e.Name() {
				bad = append(bad, fmt.Sprintf("The stored file %s is damaged.", e.Name()))
			}
		}
		return nil
	})
	if err != nil {
		return bad, fmt.Errorf("read stored files: %w", err)
	}
	type ref struct{ blob, owner string }
	for last, found := "", 0; found < maxReported; {
		var refs []ref
		err := s.db.Read(ctx, func(q db.Queryer) (err error) {
			refs, err = collect(q, func(r scanner) (one ref, err error) { return one, r.Scan(&one.blob, &one.owner) },
				`SELECT blob, MIN(owner) FROM blob_refs WHERE blob > ? GROUP BY blob ORDER BY blob LIMIT ?`, last, refsPage)
			return err
		})
		if err != nil {
			return bad, fmt.Errorf("list references to files: %w", err)
		}
		for _, r := range refs {
			last = r.blob
			_, is := blobName(BlobPrefix + r.blob)
			missing := !is
			if is && !there[r.blob] {
				_, err := os.Stat(filepath.Join(dir, r.blob[:2], r.blob))
				missing = errors.Is(err, fs.ErrNotExist)
			}
			if missing {
				bad = append(bad, fmt.Sprintf("The stored file %s is missing, to which %s refers.", r.blob, r.owner))
				found++
			}
		}
		if len(refs) < refsPage {
			break
		}
	}
	return bad, nil
}

// hashFile returns the hash of the content of a file, which is the name it must have.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
