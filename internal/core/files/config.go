package files

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// Config is an entry of the section "files" of the configuration: a set of paths to
// watch.
type Config struct {
	Paths    []string         `json:"paths,omitempty" jsonschema:"Paths to watch, absolute or starting with ~/: files, globs (** matches any number of directories), or directories with a trailing slash, which include everything below. Links are not followed."`
	Changes  []string         `json:"changes,omitempty" jsonschema:"Which changes to report: create, write, rename (moved away), remove. Default: all."`
	Debounce setting.Duration `json:"debounce,omitempty" jsonschema:"How long a file must be unchanged before the change is reported; after ten times this long, it is reported anyway. Default 500ms."`
	Queue    int              `json:"queue,omitempty" jsonschema:"How many changes may wait to become stable, and how many events may wait to be handled; further ones are dropped and counted. Default 1000."`
	Missed   string           `json:"missed,omitempty" jsonschema:"What to do about changes while Lilac was down: tell (default) reports them; skip ignores them."`
}

// The policies for changes that happened while Lilac was not running.
const (
	missedTell = "tell"
	missedSkip = "skip"
)

// Source compiles the entry with a name. resolve compiles a path. Errors name the
// fields below field.
func (c Config) Source(field, name string, resolve func(path string) (Pattern, error)) (Source, error) {
	var found []error
	s := Source{Name: name, Debounce: time.Duration(c.Debounce), Queue: c.Queue, Changes: Changes, SkipMissed: c.Missed == missedSkip}
	if len(c.Paths) == 0 {
		found = append(found, fault.InvalidField(field, "The files %s have no paths.", name))
	}
	if c.Debounce < 0 {
		found = append(found, fault.InvalidField(field+".debounce", "The debounce of the files %s is negative.", name))
	}
	if c.Queue < 0 {
		found = append(found, fault.InvalidField(field+".queue", "The queue of the files %s is negative.", name))
	}
	if c.Missed != "" && c.Missed != missedTell && c.Missed != missedSkip {
		found = append(found, fault.InvalidField(field+".missed", "The files %s have %q for what is missed; use tell or skip.", name, c.Missed))
	}
	if s.Debounce == 0 {
		s.Debounce = DefaultDebounce
	}
	if s.Queue == 0 {
		s.Queue = DefaultQueue
	}
	for i, path := range c.Paths {
		p, err := resolve(path)
		found = append(found, fault.InField(fmt.Sprintf("%s.paths[%d]", field, i), err))
		s.Patterns = append(s.Patterns, p)
	}
	if len(c.Changes) > 0 {
		s.Changes = nil
	}
	for i, change := range c.Changes {
		if !slices.Contains(Changes, Change(change)) {
			found = append(found, fault.InvalidField(fmt.Sprintf("%s.changes[%d]", field, i), "%q is no change of a file; there are %v.", change, Changes))
		}
		s.Changes = append(s.Changes, Change(change))
	}
	return s, errors.Join(found...)
}
