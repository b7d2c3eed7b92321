package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// A read error in one stored file must not prevent backing up the others.
func TestAStoredFileThatCannotBeReadIsDamaged(t *testing.T) {
	name := "blobs/ab/" + strings.Repeat("ab", 32)
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"the disk fails":                       {syscall.EIO, "begin\x00\x00\x00"},
		"what it gives has another checksum":   {syscall.EBADMSG, "begin\x00\x00\x00"},
		"it may not be read":                   {syscall.EACCES, "begin\x00\x00\x00"},
		"control: another error ends a backup": {syscall.ENOMEM, ""},
		"control: it is shorter than it was":   {nil, ""},
	} {
		t.Run(what, func(t *testing.T) {
			var out bytes.Buffer
			a := &archive{w: tar.NewWriter(&out), m: &Manifest{}}
			rest := iotest.ErrReader(c.err)
			if c.err == nil {
				rest = strings.NewReader("")
			}
			err := a.copy(name, &asFarAsGiven{r: io.MultiReader(strings.NewReader("begin"), rest)}, int64(len("begin")+3))
			if err == nil {
				err = a.w.Close()
			}
			if c.want == "" {
				if err == nil {
					t.Error("it was saved as if it were whole")
				}
				return
			}
			if err != nil || len(a.m.Damaged()) != 1 {
				t.Fatalf("%v; damaged are %v", err, a.m.Damaged())
			}
			r := tar.NewReader(&out)
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
				t.Errorf("saved was %q: %v", got, err)
			}
		})
	}
}

// unlisted is a file system in which listing one directory fails partway.
type unlisted struct {
	fs.FS
	dir string
	err error
}

func (u unlisted) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(u.FS, name)
	if name == u.dir {
		return entries[:len(entries)/2], u.err
	}
	return entries, err
}

// A directory of stored files that cannot be listed is reported; the rest is saved.
func TestADirectoryThatCannotBeReadIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		unread string // one of the directories 00 to 02
		err    error
		files  int
		fails  bool
	}{
		"a damaged one":        {"01", syscall.EIO, 5, false},
		"one that says so":     {"01", syscall.EBADMSG, 5, false},
		"one that we may not":  {"01", syscall.EACCES, 5, false},
		"all of them":          {".", syscall.EIO, 2, false},
		"control: none":        {"", nil, 6, false},
		"one that is gone now": {"01", syscall.ENOENT, 5, false},
		"control: no memory":   {"01", syscall.ENOMEM, 0, true},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for d := range 3 {
				for f := range 2 {
					name := fmt.Sprintf("%02d%02d%s", d, f, strings.Repeat("ab", 30))
					if err := errors.Join(os.MkdirAll(filepath.Join(dir, name[:2]), 0o700), os.WriteFile(filepath.Join(dir, name[:2], name), []byte("x"), 0o600)); err != nil {
						t.Fatal(err)
					}
				}
			}
			a := &archive{w: tar.NewWriter(io.Discard), m: &Manifest{}}
			err := a.addBlobs(t.Context(), dir, unlisted{os.DirFS(dir), c.unread, c.err})
			if c.fails != (err != nil) {
				t.Fatalf("it ends with %v", err)
			}
			if c.fails {
				return
			}
			if len(a.m.Entries) != c.files {
				t.Errorf("%d files are saved, want %d", len(a.m.Entries), c.files)
			}
			var want []string
			if c.unread != "" && c.err != syscall.ENOENT {
				want = []string{path.Join("blobs", c.unread)}
			}
			if !slices.Equal(a.m.Unread, want) {
				t.Errorf("named are %q, want %q", a.m.Unread, want)
			}
		})
	}
}

// The server may delete unused files while a backup runs.
func TestAStoredFileThatWasSweptIsLeftOut(t *testing.T) {
	a := &archive{w: tar.NewWriter(io.Discard), m: &Manifest{}}
	gone := filepath.Join(t.TempDir(), "gone")
	if err := a.addBlob(gone, "blobs/x"); err != nil || len(a.m.Entries) > 0 {
		t.Errorf("%v, %v", err, a.m.Entries)
	}
	if err := a.add(gone, "lilac.db"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the control, the database: %v", err)
	}
}
