package builtin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"lilac/internal/foundation/fault"
)

// maxWalk bounds how many entries a search looks at.
const maxWalk = 200_000

// skippedDirs are not searched unless the search begins in them or its pattern
// names them: they hold what people do not mean.
var skippedDirs = map[string]bool{".git": true, ".lilac": true, "node_modules": true}

var errEnough = errors.New("enough")

// walk calls visit for every plain file below base, sorted by path within each
// directory. Links are not followed. It reports whether it saw everything.
func walk(ctx context.Context, root *os.Root, base, pattern string, visit func(rel string, entry fs.DirEntry) error) (complete bool, err error) {
	seen := 0
	complete = true
	err = fs.WalkDir(root.FS(), base, func(rel string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && rel == base:
			return err
		case err != nil: // a directory that went away or may not be read
			complete = false
			return nil
		}
		if seen++; seen > maxWalk {
			return errEnough
		}
		if entry.IsDir() {
			if rel != base && skippedDirs[entry.Name()] && !strings.Contains(pattern, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return visit(rel, entry)
	})
	if errors.Is(err, errEnough) {
		return false, nil
	}
	return complete, err
}

// matcher is a glob pattern relative to a directory of the workspace.
type matcher struct {
	pattern string
	// byName matches the last element of a path only.
	byName bool
}

func newMatcher(pattern string, byName bool) (matcher, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if !doublestar.ValidatePattern(pattern) {
		return matcher{}, fault.InvalidField("pattern", "%q is not a valid glob pattern: look for an open bracket or brace.", pattern)
	}
	return matcher{pattern, byName && !strings.Contains(pattern, "/")}, nil
}

// match reports whether rel, a path below base, matches.
func (m matcher) match(base, rel string) bool {
	switch {
	case m.byName:
		rel = path.Base(rel)
	case base == rel:
		rel = path.Base(rel)
	case base != ".":
		rel = strings.TrimPrefix(rel, base+"/")
	}
	return doublestar.MatchUnvalidated(m.pattern, rel)
}
