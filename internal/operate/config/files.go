package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/files"
	"lilac/internal/foundation/fault"
)

// Files configures a set of paths to watch.
type Files struct {
	Paths    []string `json:"paths,omitempty" jsonschema:"Paths to watch, absolute or starting with ~/: files, globs (** matches any number of directories), or directories with a trailing slash, which include everything below. Links are not followed."`
	Changes  []string `json:"changes,omitempty" jsonschema:"Which changes to report: create, write, rename (moved away), remove. Default: all."`
	Debounce Duration `json:"debounce,omitempty" jsonschema:"How long a file must be unchanged before the change is reported; after ten times this long, it is reported anyway. Default 500ms."`
	Queue    int      `json:"queue,omitempty" jsonschema:"How many changes may wait to become stable, and how many events may wait to be handled; further ones are dropped and counted. Default 1000."`
	Missed   string   `json:"missed,omitempty" jsonschema:"What to do about changes while Lilac was down: tell (default) reports them; skip ignores them."`
}

// MissedTell reports file changes that happened while Lilac was not running. The alternative is
// [MissedSkip].
const MissedTell = "tell"

// WatchedFiles compiles the sources of file.changed, sorted by name.
func (c *Config) WatchedFiles() ([]files.Source, error) {
	var out []files.Source
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		f, field := c.Files[name], "files."+name
		s := files.Source{Name: name, Debounce: time.Duration(f.Debounce), Queue: f.Queue, Changes: files.Changes, SkipMissed: f.Missed == MissedSkip}
		if !nameForm().MatchString(name) {
			found = append(found, badName(field, name))
		}
		if len(f.Paths) == 0 {
			found = append(found, fault.InvalidField(field, "The files %s have no paths.", name))
		}
		if f.Debounce < 0 {
			found = append(found, fault.InvalidField(field+".debounce", "The debounce of the files %s is negative.", name))
		}
		if f.Queue < 0 {
			found = append(found, fault.InvalidField(field+".queue", "The queue of the files %s is negative.", name))
		}
		if f.Missed != "" && f.Missed != MissedTell && f.Missed != MissedSkip {
			found = append(found, fault.InvalidField(field+".missed", "The files %s have %q for what is missed; use tell or skip.", name, f.Missed))
		}
		if s.Debounce == 0 {
			s.Debounce = files.DefaultDebounce
		}
		if s.Queue == 0 {
			s.Queue = files.DefaultQueue
		}
		for i, path := range f.Paths {
			p, err := c.pattern(path)
			found = append(found, inField(fmt.Sprintf("%s.paths[%d]", field, i), err))
			s.Patterns = append(s.Patterns, p)
		}
		if len(f.Changes) > 0 {
			s.Changes = nil
		}
		for i, change := range f.Changes {
			if !slices.Contains(files.Changes, files.Change(change)) {
				found = append(found, fault.InvalidField(fmt.Sprintf("%s.changes[%d]", field, i), "%q is no change of a file; there are %v.", change, files.Changes))
			}
			s.Changes = append(s.Changes, files.Change(change))
		}
		out = append(out, s)
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Config) pattern(path string) (files.Pattern, error) {
	if strings.HasPrefix(path, "~/") {
		home, err := c.absolute("~")
		if err != nil {
			return files.Pattern{}, err
		}
		path = home + path[1:]
	}
	p, err := files.Compile(path)
	if err == nil && within(p.Base, c.DataDir) {
		err = fault.New(fault.Invalid, "The path %s is in the data directory, which changes with each change that is told.", path)
	}
	return p, err
}

func (c *Config) checkFiles() error {
	_, err := c.WatchedFiles()
	return err
}
