//go:build unix

package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lilac/internal/agent"
)

func TestTheProjectFileOfTheWorkspaceIsPartOfThePrompt(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
	}
	for name, c := range map[string]struct {
		make func(dir string) error
		want agent.Project
	}{
		"none":           {func(string) error { return nil }, agent.Project{}},
		"AGENTS.md":      {write("AGENTS.md", " Use tabs.\n"), agent.Project{Name: "AGENTS.md", Text: "Use tabs."}},
		"CLAUDE.md":      {write("CLAUDE.md", "Use spaces."), agent.Project{Name: "CLAUDE.md", Text: "Use spaces."}},
		"empty":          {write("AGENTS.md", "\n"), agent.Project{}},
		"control":        {write("AGENTS.md", "a\x1b[31mb\xff"), agent.Project{Name: "AGENTS.md", Text: "a[31mb�"}},
		"link to secret": {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "AGENTS.md")) }, agent.Project{}},
		"pipe":           {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "AGENTS.md"), 0o600) }, agent.Project{}},
		"directory":      {func(dir string) error { return os.Mkdir(filepath.Join(dir, "AGENTS.md"), 0o700) }, agent.Project{}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			got := agent.ReadProject(dir)
			if got != c.want {
				t.Errorf("the project is %+v, want %+v", got, c.want)
			}
			prompt := agent.SystemPrompt(agent.SystemInput{Workspace: dir, Project: got})
			if strings.Contains(prompt, "canary") || got.Text != "" && !strings.Contains(prompt, got.Text) || (got.Name == "") == strings.Contains(prompt, "The project in") {
				t.Errorf("the prompt is %s", prompt)
			}
		})
	}
	dir := t.TempDir()
	if err := write("AGENTS.md", strings.Repeat("x", 1<<20))(dir); err != nil {
		t.Fatal(err)
	}
	if got := agent.ReadProject(dir).Text; len(got) > 33<<10 || !strings.Contains(got, "the rest is left out") {
		t.Errorf("a large file has %d bytes in the prompt", len(got))
	}
}
