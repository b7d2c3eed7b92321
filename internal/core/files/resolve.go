package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/foundation/realpath"
)

// stat returns the info of a directory. It follows the links in the path, except a link
// that the agent may have made: the agent must not choose what is watched.
func (t *tree) stat(dir string) (os.FileInfo, error) {
	way, _, err := t.resolve(dir)
	if err != nil {
		return nil, err
	}
	return os.Lstat(way)
}

// resolve returns the real path of a directory, and the directory of the agent that
// contains it, if any.
func (t *tree) resolve(dir string) (real, agents string, err error) {
	way, err := realpath.Follow(dir)
	if err != nil {
		return "", "", err
	}
	for _, written := range t.o.AgentWritable {
		if slices.ContainsFunc(way.Links, func(link string) bool { return isWithin(link, written) }) {
			return "", "", fmt.Errorf("%s contains a link that the agent may have made: %w", dir, fs.ErrNotExist)
		}
		if isWithin(way.Real, written) {
			agents = written
		}
	}
	return way.Real, agents, nil
}

// open opens a fixed directory. A directory in a directory of the agent is opened through
// an os.Root there, because the agent may create a link at any time.
func (t *tree) open(dir string) (*os.Root, error) {
	real, agents, err := t.resolve(dir)
	if err != nil {
		return nil, err
	}
	if agents == "" {
		return os.OpenRoot(real)
	}
	root, err := os.OpenRoot(agents)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rel, err := filepath.Rel(agents, real)
	if err != nil {
		return nil, err
	}
	return root.OpenRoot(rel)
}

// lstat returns the info of a file, or nil if it does not exist. It follows no links.
func (t *tree) lstat(b *sourceFiles, path string) os.FileInfo {
	for _, p := range b.source.Patterns {
		rel, ok := p.rel(path)
		if !ok || !p.Matches(path) {
			continue
		}
		root, err := t.open(p.Base)
		if err != nil {
			continue
		}
		info, err := lstatWithoutLinks(root, rel)
		_ = root.Close() // it was only read
		if err == nil && !info.IsDir() {
			return info
		}
	}
	return nil
}

// lstatWithoutLinks returns the info of a file if no directory in its path is a link.
func lstatWithoutLinks(root *os.Root, rel string) (os.FileInfo, error) {
	for i, r := range rel {
		if r != '/' {
			continue
		}
		if info, err := root.Lstat(rel[:i]); err != nil || !info.IsDir() {
			return nil, errors.Join(fs.ErrNotExist, err)
		}
	}
	return root.Lstat(strings.TrimSuffix(rel, "/"))
}
