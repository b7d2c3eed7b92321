package realpath_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/realpath"
)

func TestFollow(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(base, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"rel": "a/b", "abs": base + "/a", "a/up": "../rel/..", "chain": "a/up/b", "circle": "circle", "dangling": "nothing/here",
	} {
		if err := os.Symlink(target, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, real string
		links      []string
		err        error
	}{
		{path: "a/b", real: "a/b"},
		{path: "rel", real: "a/b", links: []string{"rel"}},
		{path: "abs/b", real: "a/b", links: []string{"abs"}},
		{path: "abs/none/more", real: "a/none/more", links: []string{"abs"}},
		// Two dots refer to the parent of the link's target, not of the link.
		{path: "a/up", real: "a", links: []string{"a/up", "rel"}},
		{path: "chain", real: "a/b", links: []string{"chain", "a/up", "rel"}},
		{path: "dangling", real: "nothing/here", links: []string{"dangling"}},
		{path: "circle", err: syscall.ELOOP},
		{path: "file/below", err: syscall.ENOTDIR},
	} {
		got, err := realpath.Follow(filepath.Join(base, tt.path))
		if tt.err != nil {
			if !errors.Is(err, tt.err) {
				t.Errorf("%s: %v, want %v", tt.path, err, tt.err)
			}
			continue
		}
		want := realpath.Path{Real: filepath.Join(base, tt.real)}
		for _, link := range tt.links {
			want.Links = append(want.Links, filepath.Join(base, link))
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", tt.path, err, diff)
		}
	}
}

func TestUnder(t *testing.T) {
	p := realpath.Path{Real: "/a/b", Links: []string{"/c/d"}}
	for dir, want := range map[string]bool{"/": true, "/a": true, "/a/b": true, "/a/b/c": false, "/a/bb": false, "/c": true, "/c/d": true, "/e": false} {
		if got := p.Under(dir); got != want {
			t.Errorf("under %s: %v", dir, got)
		}
	}
}
