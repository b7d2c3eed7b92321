package files

import (
	"strings"
	"time"

	"lilac/internal/core/environment"
)

const (
	// DefaultDebounce is how long a file must be stable before it is reported.
	DefaultDebounce = 500 * time.Millisecond
	// DefaultQueue bounds the pending changes and the waiting events of a source.
	DefaultQueue = 1000
)

// Change is the kind of a change.
type Change string

// The changes.
const (
	Create Change = "create"
	Write  Change = "write"
	Rename Change = "rename" // it was moved away
	Remove Change = "remove"
)

// Changes lists all kinds of changes.
var Changes = []Change{Create, Write, Rename, Remove}

// Stamp distinguishes versions of a file.
type Stamp struct {
	Size int64
	// Modified is in Unix nanoseconds.
	Modified int64
}

// Source is a named set of paths to watch.
type Source struct {
	Name     string
	Patterns []Pattern
	// Changes are the kinds of changes to report.
	Changes  []Change
	Debounce time.Duration
	Queue    int
	// SkipMissed omits changes that happened while the process was down.
	SkipMissed bool
}

func (s Source) id() environment.SourceID {
	return environment.SourceID{Kind: environment.SourceFiles, Name: s.Name}
}

// scope identifies the paths of the source. A source with other paths starts anew.
func (s Source) scope() string {
	paths := make([]string, len(s.Patterns))
	for i, p := range s.Patterns {
		paths[i] = p.Base + "/" + p.glob
	}
	return strings.Join(paths, "\n")
}
