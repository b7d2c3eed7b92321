package config

import (
	"slices"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/realpath"
)

// checkMemory makes the directory of the memory absolute. It must be where commands see
// nothing, because each conversation reads only notes of its own place.
func (c checker) checkMemory() error {
	if c.Memory.Dir == "" {
		return nil
	}
	dir, err := c.absolute(c.Memory.Dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "memory.dir cannot be made an absolute path")
	}
	c.Memory.Dir = dir
	own, err := realpath.Follow(dir)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "memory.dir cannot be examined")
	}
	for _, path := range slices.Concat([]string{c.Workspace}, c.Sandbox.ReadOnly, c.Sandbox.Writable, c.Skills.Paths) {
		seen, err := realpath.Follow(path)
		if err == nil && (within(own.Real, seen.Real) || within(seen.Real, own.Real) || own.Under(seen.Real)) {
			return fault.InvalidField("memory.dir", "memory.dir is %s, but commands can see %s: a conversation could read the notes of others. Choose a directory outside of it.", dir, path)
		}
	}
	return nil
}
