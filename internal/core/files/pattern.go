package files

import (
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lilac/internal/foundation/fault"
)

// Pattern is a path of a source: a fixed directory, and what is meant in it.
type Pattern struct {
	// Base is absolute and has no glob in it.
	Base string
	// glob is relative to it.
	glob string
	// depth is how many directories below the base can hold what is meant;
	// negative is any number.
	depth int
}

// Compile reads an absolute path. One that ends with a slash means all that is
// below, one with *, ?, [ or { is a glob in which ** stands for any number of
// directories, any other is one file.
func Compile(path string) (Pattern, error) {
	switch {
	case !filepath.IsAbs(path):
		return Pattern{}, fault.New(fault.Invalid, "The path %q is neither absolute nor begins with ~/.", path)
	case !doublestar.ValidatePattern(path):
		return Pattern{}, fault.New(fault.Invalid, "The path %q is not a glob that can be read.", path)
	case strings.HasSuffix(path, "/"):
		return Pattern{Base: filepath.Clean(path), glob: "**", depth: -1}, nil
	case !strings.ContainsAny(path, `*?[{\`):
		path = filepath.Clean(path)
		return Pattern{Base: filepath.Dir(path), glob: filepath.Base(path)}, nil
	}
	base, glob := doublestar.SplitPattern(path)
	p := Pattern{Base: filepath.Clean(base), glob: glob, depth: strings.Count(glob, "/")}
	// Alternatives may hold slashes of their own.
	if strings.Contains(glob, "**") || strings.Contains(glob, "{") {
		p.depth = -1
	}
	return p, nil
}

// Matches reports whether the pattern means the file.
func (p Pattern) Matches(path string) bool {
	rel, ok := p.rel(path)
	return ok && rel != "." && doublestar.MatchUnvalidated(p.glob, rel)
}

// holds reports whether a directory can hold what is meant.
func (p Pattern) mayContain(dir string) bool {
	rel, ok := p.rel(dir)
	if !ok {
		return false
	}
	return rel == "." || p.depth < 0 || strings.Count(rel, "/") < p.depth
}

// rel is a path below the base, with slashes.
func (p Pattern) rel(path string) (string, bool) {
	rel, err := filepath.Rel(p.Base, path)
	rel = filepath.ToSlash(rel)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// isWithin reports whether a path is a directory or below it.
func isWithin(path, dir string) bool {
	_, ok := Pattern{Base: dir}.rel(path)
	return ok
}
