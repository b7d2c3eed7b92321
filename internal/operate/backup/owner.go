package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// owner is whom files belong to.
type owner struct{ uid, gid int }

// ownerOf is the owner of a directory, or of the nearest one above it that exists.
func ownerOf(dir string) (owner, error) {
	for {
		info, err := os.Stat(dir)
		parent := filepath.Dir(dir)
		if errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		if err != nil {
			return owner{}, fmt.Errorf("look whose the data directory is: %w", err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return owner{os.Getuid(), os.Getgid()}, nil
		}
		return owner{int(st.Uid), int(st.Gid)}, nil
	}
}

// give makes everything in a directory the owner's, and the directory last.
// Only root can give something away.
func (o owner) give(root *os.Root) error {
	if os.Geteuid() != 0 {
		return nil
	}
	err := fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return root.Lchown(filepath.FromSlash(name), o.uid, o.gid)
	})
	if err == nil {
		err = root.Chown(".", o.uid, o.gid)
	}
	if err != nil {
		return fmt.Errorf("give what was restored to its owner: %w", err)
	}
	return nil
}
