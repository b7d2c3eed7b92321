package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/core/clock"
	"lilac/internal/core/files"
	"lilac/internal/core/program"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/realpath"
)

// nameForm matches valid names. They appear in logs, URLs, and tables.
var nameForm = lazyregexp.New(`^[a-zA-Z0-9_-]{1,64}$`)

// Hooks compiles the webhooks by name.
func (c *Config) Hooks() (map[string]webhook.Hook, error) {
	out := map[string]webhook.Hook{}
	hooks, err := compiled("webhooks", c.Webhooks, func(field, name string, w webhook.Config) (webhook.Hook, error) { return w.Hook(field, name) })
	for _, h := range hooks {
		out[h.Name] = h
	}
	return out, err
}

// Clock compiles the timers, sorted by name.
func (c *Config) Clock() ([]clock.Timer, error) {
	return compiled("timers", c.Timers, func(field, name string, t clock.Config) (clock.Timer, error) {
		return t.Timer(field, name, c.Limits.TimeZone)
	})
}

// WatchedFiles compiles the sources of file.changed, sorted by name.
func (c *Config) WatchedFiles() ([]files.Source, error) {
	return compiled("files", c.Files, func(field, name string, f files.Config) (files.Source, error) {
		return f.Source(field, name, c.pattern)
	})
}

// Programs compiles the programs that are sources, sorted by name.
func (c *Config) Programs() ([]program.Source, error) {
	dir := filepath.Dir(cmp.Or(c.File, c.Sought))
	return compiled("sources", c.Sources, func(field, name string, p program.Config) (program.Source, error) {
		s, err := p.Source(field, name, dir, c.absolute)
		return s, errors.Join(err, c.checkOutOfReach(field, s))
	})
}

// checkOutOfReach rejects a program that commands of the agent could replace: it would run
// outside the sandbox.
func (c *Config) checkOutOfReach(field string, s program.Source) error {
	for i, arg := range s.Command {
		if i > 0 && !filepath.IsAbs(arg) || !strings.ContainsRune(arg, filepath.Separator) {
			continue // a program of the PATH, or no path
		}
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(s.Dir, arg)
		}
		path, err := realpath.Follow(arg)
		if err != nil {
			continue // the source reports it when it runs
		}
		for _, dir := range AgentWrites(c) {
			if way, err := realpath.Follow(dir); err == nil && (within(path.Real, way.Real) || path.Under(way.Real)) {
				return fault.InvalidField(fmt.Sprintf("%s.command[%d]", field, i), "The source %s runs %s, which the agent can replace, because it may write in %s. Move it elsewhere.", s.Name, arg, dir)
			}
		}
	}
	return nil
}

// compiled compiles the entries of a section, sorted by name.
func compiled[C, T any](section string, entries map[string]C, compile func(field, name string, c C) (T, error)) (out []T, err error) {
	var found []error
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		field := section + "." + name
		if !nameForm().MatchString(name) {
			found = append(found, fault.InvalidField(field, "%q is not a name: use 1 to 64 letters, digits, _ and -.", name))
		}
		one, err := compile(field, name, entries[name])
		out, found = append(out, one), append(found, err)
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
