package files

import (
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lilac/internal/foundation/fault"
)

// Pattern is a path of a source: a fixed directory and a glob below it.
type Pattern struct {
	// Base is absolute and contains no glob.
	Base string
	// glob is relative to Base.
	glob string
	// depth is the number of directory levels below the base that can contain matches;
	// negative is any number.
	depth int
}

// Compile compiles an absolute path. A path that ends with a slash matches everything
// below. A path with *, ?, [, or { is a glob, in which ** matches any number of
// directories. Any other path is one file.
func Compile(path string) (Pattern, error) {
	switch {
	case !filepath.IsAbs(path):
		return Pattern{}, fault.New(fault.Invalid, "The path %q is not absolute. Use a path that begins with / or ~/.", path)
	case !doublestar.ValidatePattern(path):
		return Pattern{}, fault.New(fault.Invalid, "The path %q is not a valid glob.", path)
	case strings.HasSuffix(path, "/"):
		return Pattern{Base: filepath.Clean(path), glob: "**", depth: -1}, nil
	case !strings.ContainsAny(path, `*?[{\`):
		path = filepath.Clean(path)
		return Pattern{Base: filepath.Dir(path), glob: filepath.Base(path)}, nil
	}
	base, glob := doublestar.SplitPattern(path)
	p := Pattern{Base: filepath.Clean(base), glob: glob, depth: strings.Count(glob, "/")}
	// Alternatives may contain slashes.
	if strings.Contains(glob, "**") || strings.Contains(glob, "{") {
		p.depth = -1
	}
	return p, nil
}

// Matches reports whether the pattern matches the file.
func (p Pattern) Matches(path string) bool {
	rel, ok := p.rel(path)
	return ok && rel != "." && doublestar.MatchUnvalidated(p.glob, rel)
}

// mayContain reports whether a directory can contain matches.
func (p Pattern) mayContain(dir string) bool {
	rel, ok := p.rel(dir)
	if !ok {
		return false
	}
	return rel == "." || p.depth < 0 || strings.Count(rel, "/") < p.depth
}

// rel returns a path relative to the base, with slashes.
func (p Pattern) rel(path string) (string, bool) {
	rel, err := filepath.Rel(p.Base, path)
	rel = filepath.ToSlash(rel)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// isWithin reports whether a path is the directory or below it.
func isWithin(path, dir string) bool {
	_, ok := Pattern{Base: dir}.rel(path)
	return ok
}
