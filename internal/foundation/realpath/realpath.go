// Package realpath says where a path leads, and who can make it lead elsewhere.
//
// Whoever may write in a directory may replace what lies in it, also by a link. So
// a path is as safe as the least safe directory on the way to it, which is not
// always one that its words name.
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

// maxLinks is how many links a path may lead over, as for the kernel.
const maxLinks = 40

// Path is a path that was followed.
type Path struct {
	// Real is where it leads, over no link.
	Real string
	// Links are where the links lie that it led over.
	Links []string
}

// Follow follows a path as far as it exists; what does not exist leads nowhere else.
func Follow(path string) (Path, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Path{}, fmt.Errorf("follow %s: %w", path, err)
	}
	p := Path{Real: "/"}
	for rest := strings.Split(abs, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		at := filepath.Join(p.Real, name) // which takes care of ".", ".." and nothing
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

// Under reports whether who may write in a directory decides where the path
// leads: its end, or a link that it led over, is the directory or lies below it.
// The directory is one that was followed.
func (p Path) Under(dir string) bool {
	for _, at := range append([]string{p.Real}, p.Links...) {
		if at == dir || dir == "/" || strings.HasPrefix(at, dir+"/") {
			return true
		}
	}
	return false
}
