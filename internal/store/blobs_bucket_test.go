package store_test

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bucket"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/s3test"
)

func inBucket(t testing.TB, s *s3test.Server) (b *store.Blobs, dir string) {
	t.Helper()
	a, err := bucket.Parse(s.Address("files"))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	b, err = store.OpenBlobs(dir, bucket.New(bucket.Options{Address: a, Credentials: func() bucket.Credentials {
		return bucket.Credentials{AccessKeyID: s3test.KeyID, SecretAccessKey: s3test.Secret}
	}}), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return b, dir
}

// Every node that has the bucket reads what any node has stored.
func TestBlobsInABucket(t *testing.T) {
	effort.SkipSlow(t)
	ctx, s := t.Context(), s3test.Start(t)
	one, dir := inBucket(t, s)
	other, _ := inBucket(t, s)
	data := []byte("some bytes")
	ref, err := one.Put(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(ref, store.BlobPrefix)
	before := s.Requests()
	for range 2 {
		if got, err := other.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the other node reads %q, %v", got, err)
		}
	}
	if got := other.Size(ref); got != int64(len(data)) {
		t.Errorf("the size is %d", got)
	}
	if n := s.Requests() - before; n != 1 {
		t.Errorf("%d requests, want 1: then there is a copy", n)
	}

	t.Run("a damaged copy is replaced", func(t *testing.T) {
		path := filepath.Join(dir, name[:2], name)
		if err := os.WriteFile(path, []byte("some bytez"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %q, %v", got, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the copy is %q, %v", got, err)
		}
	})
	t.Run("damage in the bucket is found, not served", func(t *testing.T) {
		third, _ := inBucket(t, s)
		s.Set("files/"+name, []byte("some bytez"), 0)
		if _, err := third.Get(ctx, ref); fault.KindOf(err) != fault.Internal || !strings.Contains(err.Error(), "damaged") {
			t.Error(err)
		}
		if _, err := one.Put(ctx, data); err != nil {
			t.Error(err)
		}
		if got, err := third.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("after it was put again: %q, %v", got, err)
		}
	})
	t.Run("what cannot be stored in the bucket is not accepted", func(t *testing.T) {
		s.Fail(-1, http.StatusServiceUnavailable)
		defer s.Fail(0, 0)
		if _, err := one.Put(ctx, []byte("others")); fault.KindOf(err) != fault.Unavailable {
			t.Error(err)
		}
		if got, err := one.Get(ctx, ref); err != nil || !bytes.Equal(got, data) {
			t.Errorf("a copy is read while the bucket is away: %q, %v", got, err)
		}
	})
	t.Run("what does not exist", func(t *testing.T) {
		if _, err := one.Get(ctx, store.BlobPrefix+strings.Repeat("a", 64)); fault.KindOf(err) != fault.NotFound {
			t.Error(err)
		}
	})
}

// The files of a directory move to the bucket, once, and again after an interruption.
func TestFilesMoveToABucket(t *testing.T) {
	ctx, s := t.Context(), s3test.Start(t)
	old := t.TempDir()
	before, err := store.OpenBlobs(old, nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, text := range []string{"a", "b", "c", "d"} {
		ref, err := before.Put(ctx, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	if err := os.WriteFile(filepath.Join(old, ".put-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	now, _ := inBucket(t, s)
	s.Fail(1, http.StatusForbidden) // the first attempt is interrupted
	if _, err := now.Adopt(ctx, old); err == nil {
		t.Error("a failure was not reported")
	}
	for _, want := range []int{4, 0} {
		if n, err := now.Adopt(ctx, old); err != nil || n != want {
			t.Errorf("%d files were copied, %v, want %d", n, err, want)
		}
	}
	for _, ref := range refs {
		if _, err := now.Get(ctx, ref); err != nil {
			t.Error(err)
		}
	}
	elsewhere, err := store.OpenBlobs(t.TempDir(), nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := elsewhere.Adopt(ctx, old); err != nil || n != 4 {
		t.Errorf("to a directory: %d, %v", n, err)
	}
}

// A sweep removes from the bucket what has no reference and is old. It keeps what is new, what
// is referenced, and what somebody else has put there.
func TestASweepOfABucket(t *testing.T) {
	ctx, s := t.Context(), s3test.Start(t)
	writer, _ := inBucket(t, s)
	sweeper, _ := inBucket(t, s) // without copies
	const age = 48 * time.Hour
	names := map[string]string{}
	for _, what := range []string{"old", "new", "referenced"} {
		ref, err := writer.Put(ctx, []byte(what))
		if err != nil {
			t.Fatal(err)
		}
		names[what] = strings.TrimPrefix(ref, store.BlobPrefix)
	}
	for _, what := range []string{"old", "referenced"} {
		s.Set("files/"+names[what], []byte(what), 2*age)
	}
	s.Set("files/notes.txt", nil, 2*age)
	swept, err := sweeper.Sweep(ctx, time.Now(), age, func(asked []string) (map[string]bool, error) {
		live := map[string]bool{}
		for _, name := range asked {
			live[name] = name == names["referenced"]
		}
		return live, context.Cause(ctx)
	})
	if err != nil || swept.Removed != 1 || swept.Bytes != 3 {
		t.Errorf("%+v, %v", swept, err)
	}
	left := strings.Join(s.Keys(), " ")
	for what, want := range map[string]bool{names["old"]: false, names["new"]: true, names["referenced"]: true, "notes.txt": true} {
		if strings.Contains(left, what) != want {
			t.Errorf("%s is in the bucket: %t", what, !want)
		}
	}
}
