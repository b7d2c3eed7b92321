package config

import (
	"path/filepath"

	"lilac/internal/agent/skills"
)

// trustFile is the file of the trusted skills in the data directory.
const trustFile = "trusted-skills.json"

// skillsDirs are the directories of skills in the workspace and in the home directory.
var skillsDirs = []string{filepath.Join(".agents", "skills"), filepath.Join(".claude", "skills")}

// SkillLibrary returns where the skills are. The directories of the operator precede those
// of the workspace, where the agent writes.
func (c *Config) SkillLibrary() skills.Library {
	l := skills.Library{Trust: skills.Trust{File: filepath.Join(c.DataDir, trustFile)}}
	if c.Skills.Off {
		return l
	}
	for _, dir := range skillDirs(c) {
		l.Roots = append(l.Roots, skills.Root{Dir: dir, From: skills.Operator})
	}
	for _, dir := range skillsDirs {
		l.Roots = append(l.Roots, skills.Root{Dir: filepath.Join(c.Workspace, dir), From: skills.Workspace})
	}
	return l
}

// skillDirs returns the directories of skills outside the workspace.
func skillDirs(c *Config) []string {
	out := append([]string{}, c.Skills.Paths...)
	if c.getenv == nil {
		return out
	}
	if dir, err := c.absolute("~/" + filepath.ToSlash(skillsDirs[0])); err == nil {
		out = append(out, dir)
	}
	return out
}
