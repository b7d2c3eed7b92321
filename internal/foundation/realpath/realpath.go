// Package realpath resolves the symbolic links in a path, and reports which directories
// control where it leads.
//
// A process that may write in a directory may replace its entries, also by links. So a
// path is only as safe as the least safe directory on the way to its target, and links
// can lead through directories that the path does not name. The functions hold no state.
package realpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks bounds the links in a path. The kernel has the same limit.
const maxLinks = 40

// Path is a resolved path.
type Path struct {
	// Real is the target, without links.
	Real string
	// Links lists the paths of the links that were followed.
	Links []string
}

// Follow resolves a path as far as it exists. A part that does not exist is kept
// unchanged.
func Follow(path string) (Path, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Path{}, fmt.Errorf("follow %s: %w", path, err)
	}
	p := Path{Real: "/"}
	for rest := strings.Split(abs, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		at := filepath.Join(p.Real, name) // which handles ".", ".." and the empty name
		target, err := os.Readlink(at)
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // no link
			p.Real = at
			continue
		case err != nil:
			return Path{}, fmt.Errorf("follow %s: %w", path, err)
		case len(p.Links) == maxLinks:
			return Path{}, fmt.Errorf("follow %s: %w", path, syscall.ELOOP)
		}
		p.Links = append(p.Links, at)
		if filepath.IsAbs(target) {
			p.Real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return p, nil
}

// Under reports whether a process that may write in dir controls where the path leads:
// the target, or a link on the way, is dir or is below it. dir must be resolved.
func (p Path) Under(dir string) bool {
	for _, at := range append([]string{p.Real}, p.Links...) {
		if at == dir || dir == "/" || strings.HasPrefix(at, dir+"/") {
			return true
		}
	}
	return false
}
