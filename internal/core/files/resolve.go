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

// stat looks at a directory. Links on the way are followed, but not one that the
// agent may have made: it would choose what is watched.
func (t *tree) stat(dir string) (os.FileInfo, error) {
	way, _, err := t.resolve(dir)
	if err != nil {
		return nil, err
	}
	return os.Lstat(way)
}

// follow says where a directory really is, and in which one of the agent's, if any.
func (t *tree) resolve(dir string) (real, agents string, err error) {
	way, err := realpath.Follow(dir)
	if err != nil {
		return "", "", err
	}
	for _, written := range t.o.AgentWritable {
		if slices.ContainsFunc(way.Links, func(link string) bool { return isWithin(link, written) }) {
			return "", "", fmt.Errorf("%s is reached by a link of the agent: %w", dir, fs.ErrNotExist)
		}
		if isWithin(way.Real, written) {
			agents = written
		}
	}
	return way.Real, agents, nil
}

// open opens a fixed directory. One of the agent's is reached through the directory
// that the agent may write: it may put a link there at any moment.
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

// lstat looks at a file without following a link on the way to it; nil is none.
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

// lstatWithoutLinks is of a file in directories of which none is a link.
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
