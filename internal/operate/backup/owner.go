package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lilac/internal/foundation/osfile"
)

// An owner is the user and the group that own files.
type owner struct{ uid, gid int }

// ownerOf returns the owner of a directory, or of its nearest existing parent.
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
		uid, gid, ok := osfile.Owner(info)
		if !ok {
			return owner{os.Getuid(), os.Getgid()}, nil
		}
		return owner{uid, gid}, nil
	}
}

// give changes the owner of everything in a directory, and of the directory last. It does nothing
// unless the process runs as root, because only root can change owners.
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
