package builtin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
)

// maxLinks bounds the symbolic links in a path.
const maxLinks = 20

// workspace is the directory that the file tools are confined to.
type workspace struct {
	dir   string // with all links resolved
	given string // as configured: absolute paths may also begin with it
	// own reports that it is the workspace of one conversation, and not the configured one.
	own bool
}

// in returns the workspace at dir, with all links resolved, or the configured one.
func (w *workspace) in(dir string) *workspace {
	if dir == "" || dir == w.dir || dir == w.given {
		return w
	}
	return &workspace{dir: dir, given: dir, own: true}
}

// from turns a path relative to cwd, a directory of the workspace, into one relative to
// the workspace. A directory outside counts as the workspace.
func (w *workspace) from(cwd, name string) string {
	if cwd == "" || name == "" || strings.HasPrefix(name, "/") || name == "~" || strings.HasPrefix(name, "~/") {
		return name
	}
	base, err := w.rel(cwd)
	if err != nil || !strings.HasPrefix(cwd, "/") {
		return name
	}
	return path.Join(base, name)
}

// openDir returns a directory of the workspace as its own root. It creates the
// directory if it is missing.
func (w *workspace) openDir(rel string) (*os.Root, error) {
	root, err := w.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(rel, 0o755); err != nil {
		return nil, err
	}
	return root.OpenRoot(rel)
}

// open returns the root of the workspace. It is opened for each call, so that a
// workspace that was deleted and created again is found.
func (w *workspace) open() (*os.Root, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The workspace %s cannot be opened.", w.dir)
	}
	return root, nil
}

// rel turns a path from the model into one relative to the workspace. It looks only at
// the path itself; os.Root ensures that the file is inside the workspace.
func (w *workspace) rel(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fault.InvalidField("path", "A path must not contain a NUL character.")
	}
	if len(name) > 4096 {
		return "", fault.InvalidField("path", "The path is too long (%d bytes).", len(name))
	}
	p := name
	switch {
	case p == "" || p == "~":
		p = "."
	case strings.HasPrefix(p, "~/"):
		p = strings.TrimLeft(p[2:], "/")
	case strings.HasPrefix(p, "/"):
		clean, ok := filepath.Clean(p), false
		for _, dir := range []string{w.dir, w.given} {
			if within(clean, dir) {
				p, ok = strings.TrimPrefix(strings.TrimPrefix(clean, dir), "/"), true
				break
			}
		}
		if !ok {
			return "", w.outside(name)
		}
	}
	p = path.Clean(p)
	if p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		return "", w.outside(name)
	}
	return p, nil
}

func (w *workspace) outside(name string) error {
	return fault.New(fault.Denied, "%s is outside the workspace %s. Use a path inside it.", name, w.dir)
}

// within reports whether p is dir or is below it; both are clean and absolute.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// explain turns an error of the file system into one that the model can correct.
func (w *workspace) explain(err error, name string) error {
	var known *fault.Error
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(fault.NotFound, err, "%s does not exist.", name)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(fault.Denied, err, "%s must not be accessed by this user.", name)
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(fault.Invalid, err, "A part of %s is a file where a directory is needed.", name)
	case errors.Is(err, syscall.EISDIR):
		return fault.Wrap(fault.Invalid, err, "%s is a directory.", name)
	case errors.Is(err, syscall.ELOOP):
		return fault.Wrap(fault.Invalid, err, "%s is a link that leads in a circle.", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.Wrap(fault.Invalid, err, "A name in %s is too long.", name)
	case osfile.IsFull(err):
		return fault.Wrap(fault.Unavailable, err, "There is no space left to write %s.", name)
	case strings.Contains(err.Error(), "escapes from parent"):
		return fault.Wrap(fault.Denied, err, "%s leads out of the workspace %s.", name, w.dir)
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return fmt.Errorf("%s: %w", name, pathErr.Err)
	}
	return err
}

// openPlain opens a regular file or directory for reading. It refuses everything else
// without opening it: opening a FIFO blocks, and opening a device may have effects.
func openPlain(root *os.Root, rel string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(rel)
	if err != nil {
		return nil, nil, err
	}
	if err := plain(info, rel); err != nil {
		return nil, nil, err
	}
	file, err := root.OpenFile(rel, os.O_RDONLY|osfile.NonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	// It may have been replaced since.
	info, err = file.Stat()
	if err == nil {
		err = plain(info, rel)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// plain refuses everything except regular files and directories.
func plain(info fs.FileInfo, name string) error {
	if info.Mode().IsRegular() || info.IsDir() {
		return nil
	}
	kind := "a special file"
	switch mode := info.Mode(); {
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return fault.New(fault.Invalid, "%s is %s; only plain files can be used.", name, kind)
}

// followLinks returns the path of rel without symbolic links, so that writing replaces
// the file and not the link. A link is resolved relative to its real directory.
func followLinks(root *os.Root, rel string) (string, error) {
	real, rest := ".", strings.Split(rel, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(real, rest[0])
		rest = rest[1:]
		if next == ".." {
			return "", leadsOut(rel)
		}
		info, err := root.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return path.Join(append([]string{next}, rest...)...), nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			return "", leadsOut(rel)
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, nil
}

func leadsOut(rel string) error {
	return fault.New(fault.Denied, "%s leads through a link out of the workspace.", rel)
}
