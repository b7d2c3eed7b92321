package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// A disk that does not give one stored file is a reason to save the others.
func TestAStoredFileThatCannotBeReadIsDamaged(t *testing.T) {
	name := "blobs/ab/" + strings.Repeat("ab", 32)
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"the disk fails":                       {syscall.EIO, "begin\x00\x00\x00"},
		"what it gives has another checksum":   {syscall.EBADMSG, "begin\x00\x00\x00"},
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

// Files are swept while a backup is made.
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
