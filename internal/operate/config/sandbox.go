package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/realpath"
)

func (c checker) checkSandbox() error {
	found := []error{c.checkSandboxPaths(), c.Sandbox.Check("sandbox")}
	for _, rule := range c.Sandbox.Network.EgressRules() {
		for _, err := range parts(rule.Validate()) {
			var f *fault.Error
			field := "sandbox.network.hosts." + rule.Host
			if errors.As(err, &f) && f.Field != "host" {
				field += "." + f.Field
			}
			found = append(found, fault.InvalidField(field, "%s: %s", field, err))
		}
	}
	return errors.Join(found...)
}

// checkSandboxPaths makes the paths absolute. It ensures that no visible path exposes the data
// directory and that writable paths do not overlap with other paths.
func (c checker) checkSandboxPaths() error {
	data, err := realpath.Follow(c.DataDir)
	if err != nil {
		return unreachable("The data directory "+c.DataDir, err)
	}
	work, err := realpath.Follow(c.Workspace)
	if err != nil {
		return nil // checkApart reports this error
	}
	var found []error
	shown := []shownPath{{"workspace", c.Workspace, true, work}}
	for _, list := range []struct {
		name  string
		paths []string
	}{
		{"sandbox.readOnly", c.Sandbox.ReadOnly},
		{"sandbox.writable", c.Sandbox.Writable},
		{"skills.paths", c.Skills.Paths}, // commands may read skills
		{hidden, c.Sandbox.Hidden},
	} {
		for i, given := range list.paths {
			field := fmt.Sprintf("%s[%d]", list.name, i)
			path, way, err := c.sandboxPath(field, given, list.name == hidden, data)
			if list.paths[i] = path; err == nil && list.name != hidden {
				next := shownPath{field, given, list.name == "sandbox.writable", way}
				err = next.apart(c.DataDir, data, shown)
				shown = append(shown, next)
			}
			found = append(found, err)
		}
	}
	return errors.Join(found...)
}

// hidden is the key of the paths that commands must not see.
const hidden = "sandbox.hidden"

// A shownPath is a path that commands can see.
type shownPath struct {
	field, given string
	writable     bool
	way          realpath.Path
}

// apart ensures that no path is resolved through a directory that commands can write. Otherwise, a
// command could create a symbolic link there and expose the link's target instead of the
// configured path.
func (p shownPath) apart(dataDir string, data realpath.Path, before []shownPath) error {
	if p.writable && data.Under(p.way.Real) {
		return fault.InvalidField(p.field, "%s contains a link on the way to the data directory %s; the agent could point it elsewhere.", p.field, dataDir)
	}
	for _, other := range before {
		for _, pair := range [][2]shownPath{{p, other}, {other, p}} {
			if inner, outer := pair[0], pair[1]; outer.writable && inner.way.Under(outer.way.Real) {
				return fault.InvalidField(p.field, "%s lies in %s (%s), or is reached by a link there; the agent may write there and could put a link to anything in its place.",
					inner.field, outer.field, outer.given)
			}
		}
	}
	return nil
}

// sandboxPath makes a path absolute and resolves its symbolic links.
func (c checker) sandboxPath(field, given string, hidden bool, data realpath.Path) (string, realpath.Path, error) {
	var way realpath.Path
	if !filepath.IsAbs(given) && given != "~" && !strings.HasPrefix(given, "~/") {
		return given, way, fault.InvalidField(field, "%s is %q; it must be an absolute path, or begin with ~/.", field, given)
	}
	path, err := c.absolute(given)
	if err != nil {
		return given, way, fault.Wrap(fault.Invalid, err, "%s cannot be made an absolute path", field)
	}
	way, err = realpath.Follow(path)
	switch {
	case err != nil:
		return path, way, unreachable(field, err)
	case hidden:
		return path, way, nil
	case within(data.Real, way.Real) || within(way.Real, data.Real):
		return path, way, fault.InvalidField(field, "%s would show the data directory %s; the agent could read its secrets.", field, c.DataDir)
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if within(way.Real, kernel) {
			return path, way, fault.InvalidField(field, "%s is %s, which shows more than files.", field, given)
		}
	}
	return path, way, nil
}
