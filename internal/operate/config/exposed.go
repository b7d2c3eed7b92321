package config

import (
	"fmt"
	"slices"

	"lilac/internal/foundation/realpath"
)

// exposed warns about files with Lilac's secrets in directories that commands can read or write.
// In read-only directories, the sandbox mounts a cover over each such file. But a cover applies to
// one file: if a save replaces the file by renaming a new one over it, as most editors do, a
// command that is already running sees the new file.
func (c reader) exposed() (found []Warning) {
	type seen struct{ field, path, so string }
	shown := []seen{{"workspace", c.Workspace, "the agent reads and writes it. Keep it elsewhere."}}
	for i, path := range c.Sandbox.ReadOnly {
		shown = append(shown, seen{
			fmt.Sprintf("sandbox.readOnly[%d]", i), path,
			"it is hidden, but not from a command that runs while it is saved. Keep it elsewhere, or name its directory in sandbox.hidden.",
		})
	}
	for i, path := range c.Sandbox.Writable {
		shown = append(shown, seen{fmt.Sprintf("sandbox.writable[%d]", i), path, "every command is refused. Keep it elsewhere."})
	}
	for _, ours := range []struct{ what, path string }{
		{"the file of the configuration", c.File},
		{"the file of bus.passwordFile", c.Bus.PasswordFile},
		{"the file of bus.sentinelPasswordFile", c.Bus.SentinelPasswordFile},
		{"the file of bus.keyFile", c.Bus.KeyFile},
	} {
		file, err := realpath.Follow(ours.path)
		if ours.path == "" || err != nil || c.coveredWhole(file) {
			continue
		}
		for _, s := range shown {
			dir, err := realpath.Follow(s.path)
			if err != nil || !file.Under(dir.Real) {
				continue
			}
			at, ok := c.places[s.field]
			if !ok {
				at = place{1, 1}
			}
			found = append(found, Warning{
				File: c.File, Line: at.Line, Column: at.Column,
				Message: fmt.Sprintf("%s (%s) contains %s, %s, or a link to it: %s", s.field, s.path, ours.what, ours.path, s.so),
			})
		}
	}
	return found
}

// coveredWhole reports whether sandbox.hidden lists a directory that contains the file. Such a
// cover holds even when the file is replaced.
func (c reader) coveredWhole(file realpath.Path) bool {
	return slices.ContainsFunc(c.Sandbox.Hidden, func(path string) bool {
		hidden, err := realpath.Follow(path)
		return err == nil && hidden.Real != file.Real && within(file.Real, hidden.Real)
	})
}
