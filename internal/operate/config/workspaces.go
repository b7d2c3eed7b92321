package config

import (
	"errors"
	"path/filepath"
	"slices"

	"lilac/internal/core/session"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/realpath"
)

// Workspaces configures in which directory the agent works in a conversation.
type Workspaces struct {
	Shared bool   `json:"shared,omitempty" jsonschema:"Whether all conversations share the directory of the setting workspace. By default, each conversation has a directory of its own, and channels (channels.NAME.workspace.shared), rules (do.agent.workspace.shared), and single conversations can share that one."`
	Dir    string `json:"dir,omitempty" jsonschema:"The directory of the conversations' own workspaces. Default: workspaces in dataDir. It must be outside of the shared workspace and of what commands see."`
	Homes  string `json:"homes,omitempty" jsonschema:"The directory of the home directories of commands; each conversation has its own. Default: homes in dataDir. It must be outside of the workspaces and of what commands see."`
}

// WorkspacesDir returns the directory of the conversations' own workspaces.
func WorkspacesDir(c *Config) string {
	if c.Workspaces.Dir != "" {
		return c.Workspaces.Dir
	}
	return filepath.Join(c.DataDir, "workspaces")
}

// HomesDir returns the directory of the home directories of commands.
func HomesDir(c *Config) string {
	if c.Workspaces.Homes != "" {
		return c.Workspaces.Homes
	}
	return filepath.Join(c.DataDir, "homes")
}

// AgentWrites returns the directories in which the agent may write.
func AgentWrites(c *Config) []string {
	return append([]string{c.Workspace, WorkspacesDir(c)}, c.Sandbox.Writable...)
}

// SharesWorkspace reports whether a request works in the shared workspace: as its rules say, if it
// handles events; else as its channel says; else as people chose for the conversation; else as
// workspaces.shared says. The choice comes after the channel, because it must not widen what the
// operator has configured.
func SharesWorkspace(c *Config, channel Channel, rules []string, chosen session.Workspace) bool {
	shared := c.Workspaces.Shared
	switch {
	case channel.Workspace.Shared != nil:
		shared = *channel.Workspace.Shared
	case chosen != "":
		shared = chosen == session.SharedWorkspace
	}
	if len(rules) == 0 {
		return shared
	}
	// A request that handles events of several rules shares only what all of them share.
	return !slices.ContainsFunc(rules, func(rule string) bool {
		if says := c.Rules[rule].Do.Agent.Workspace.Shared; says != nil {
			return !*says
		}
		return !shared
	})
}

// checkMemory makes the directory of the memory absolute, and checkWorkspaces those of the
// conversations' own workspaces and of the home directories.
func (c checker) checkMemory() error {
	return c.checkSeparate("memory.dir", &c.Memory.Dir, "a conversation could read the notes of others")
}

func (c checker) checkWorkspaces() error {
	return errors.Join(
		c.checkSeparate("workspaces.dir", &c.Workspaces.Dir, "a conversation could read the files of others"),
		c.checkSeparate("workspaces.homes", &c.Workspaces.Homes, "a conversation could change the settings of others"),
	)
}

// checkSeparate makes a directory with something of all conversations absolute. It must be where
// commands see nothing, because each conversation gets only its own part.
func (c checker) checkSeparate(field string, at *string, otherwise string) error {
	if *at == "" {
		return nil
	}
	dir, err := c.absolute(*at)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "%s cannot be made an absolute path", field)
	}
	*at = dir
	own, err := realpath.Follow(dir)
	if err != nil {
		return unreachable(field, err)
	}
	for _, path := range slices.Concat([]string{c.Workspace}, c.Sandbox.ReadOnly, c.Sandbox.Writable, c.Skills.Paths) {
		seen, err := realpath.Follow(path)
		if err == nil && (within(own.Real, seen.Real) || within(seen.Real, own.Real) || own.Under(seen.Real)) {
			return fault.InvalidField(field, "%s is %s, but commands can see %s: %s. Choose a directory outside of it.", field, dir, path, otherwise)
		}
	}
	return nil
}
