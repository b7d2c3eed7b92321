package osfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// Replace writes a file as a whole, so that readers see the old or the new content, and waits
// until it is on the disk. The file is never readable by more users than mode allows.
//
// A file that root writes belongs to the owner of the file before it, or else of the directory:
// otherwise, a service that runs as another user could not read what its operator has changed.
func Replace(file string, data []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return ReplaceIn(root, filepath.Base(file), data, mode)
}

// ReplaceIn is like [Replace], for a file below a directory. Its name has slashes.
func ReplaceIn(root *os.Root, name string, data []byte, mode fs.FileMode) (err error) {
	next := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".new")
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Remove(next))
		}
	}()
	before, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		before, err = root.Stat(path.Dir(name))
	}
	if err == nil {
		Adopt(f, before)
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return root.Rename(next, name)
}

// Adopt gives a file that root has made to the owner of another file or directory. For other users,
// it does nothing.
func Adopt(f *os.File, as fs.FileInfo) {
	if uid, gid, ok := Owner(as); ok && os.Geteuid() == 0 {
		_ = f.Chown(uid, gid) // root of a container may lack the right, and needs none
	}
}

// MkdirAll is like [os.MkdirAll]. A directory that root makes belongs to the owner of the one that
// it is in.
func MkdirAll(dir string, mode fs.FileMode) error {
	above, missing := filepath.Clean(dir), ""
	for {
		_, err := os.Stat(above)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || filepath.Dir(above) == above {
			break
		}
		missing = path.Join(filepath.Base(above), missing)
		above = filepath.Dir(above)
	}
	root, err := os.OpenRoot(above)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return MkdirAllIn(root, missing, mode)
}

// MkdirAllIn is like [MkdirAll], for a directory below another one. Its name has slashes.
func MkdirAllIn(root *os.Root, name string, mode fs.FileMode) error {
	at := "."
	for part := range strings.SplitSeq(name, "/") {
		above := at
		if at = path.Join(at, part); at == above {
			continue
		}
		err := root.Mkdir(at, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := root.Stat(above)
		if err != nil {
			return fmt.Errorf("look whose the directory above is: %w", err)
		}
		if uid, gid, ok := Owner(info); ok && os.Geteuid() == 0 {
			_ = root.Lchown(at, uid, gid) // as in Adopt
		}
	}
	info, err := root.Stat(at)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	}
	return err
}
