package store_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/store"
)

func TestBlobs(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	b, err := store.OpenBlobs(store.BlobsDir(dir), nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("some bytes")
	ref, err := b.Put(ctx, data)
	if err != nil || !strings.HasPrefix(ref, store.BlobPrefix) {
		t.Fatal(ref, err)
	}
	name := strings.TrimPrefix(ref, store.BlobPrefix)
	path := filepath.Join(dir, "blobs", name[:2], name)

	t.Run("what was put is there, also after opening again", func(t *testing.T) {
		again, err := store.OpenBlobs(store.BlobsDir(dir), nil, 100)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("the same bytes are the same blob, from many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if again, err := b.Put(ctx, []byte("others")); err != nil || again == ref {
					t.Error(again, err)
				}
			})
		}
		wg.Wait()
		if again, err := b.Put(ctx, data); err != nil || again != ref {
			t.Error(again, err)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "blobs", "*", ".put-*"))
		if len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("damage is found, not served, and mended by putting again", func(t *testing.T) {
		if err := os.WriteFile(path, []byte("some bytez"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, ref); err == nil {
			t.Errorf("served %q", got)
		}
		if _, err := b.Put(ctx, data); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("over the cap is refused", func(t *testing.T) {
		if _, err := b.Put(ctx, make([]byte, 101)); fault.KindOf(err) != fault.TooLarge {
			t.Error(err)
		}
	})
	t.Run("what was put under a larger cap is whole", func(t *testing.T) {
		small, err := store.OpenBlobs(store.BlobsDir(dir), nil, int64(len(data)-1))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := small.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q, %v", got, err)
		}
	})
	for ref, want := range map[string]fault.Kind{
		store.BlobPrefix + strings.Repeat("0", 64):  fault.NotFound,
		store.BlobPrefix + strings.Repeat("A", 64):  fault.Invalid,
		store.BlobPrefix + "../../../../etc/passwd": fault.Invalid,
		store.BlobPrefix: fault.Invalid,
		"":               fault.Invalid,
		name:             fault.Invalid,
	} {
		if _, err := b.Get(ctx, ref); fault.KindOf(err) != want {
			t.Errorf("%q: %v, want %s", ref, err, want)
		}
	}
}

// A command that root runs on a service's data must not keep the service from its files.
func TestABlobThatRootStoresBelongsToTheOwnerOfTheDirectory(t *testing.T) {
	if !osfile.HasModes || os.Geteuid() != 0 {
		t.Skip("only root can give something away: run this test as root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	b, err := store.OpenBlobs(store.BlobsDir(dir), nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if uid, gid, _ := osfile.Owner(info); uid != 61234 || gid != 61234 {
			t.Errorf("%s belongs to %d:%d, want 61234", path, uid, gid)
		}
		return nil
	})
	if err != nil || seen != 4 { // the data directory, two directories of blobs, and the blob
		t.Errorf("%d files, %v, want 4", seen, err)
	}
}
