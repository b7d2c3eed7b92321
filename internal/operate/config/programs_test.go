package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProgramsOfTheConfiguration(t *testing.T) {
	c, file, err := loadRules(t, `
sources:
  spool:
    command: [python3, ~/spool.py, --fast]
    env: {B: "2", A: "1"}
  plain: {command: ./watch, dir: ~/work, maxBytes: 2KiB, queue: 5}
`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Programs()
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	home := filepath.Dir(file)
	plain, spool := all[0], all[1]
	if !slices.Equal(spool.Command, []string{"python3", filepath.Join(home, "spool.py"), "--fast"}) || spool.Dir != home || !slices.Equal(spool.Env, []string{"A=1", "B=2"}) || spool.MaxBytes != 1<<20 || spool.Queue != 1000 {
		t.Errorf("%+v", spool)
	}
	if !slices.Equal(plain.Command, []string{filepath.Join(home, "work", "watch")}) || plain.MaxBytes != 2048 || plain.Queue != 5 {
		t.Errorf("%+v", plain)
	}
}

func TestProgramsWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"sources:\n  a: {}\n":                                                           ":2:3: The source a has no command",
		"sources:\n  a:\n    command: []\n":                                             ":3:5: The source a has no command",
		"sources:\n  a b: {command: x}\n":                                               `:2:3: "a b" is not a name`,
		"sources:\n  a:\n    command: x\n    maxBytes: 5MiB\n":                          ":4:5: The source a accepts lines of",
		"sources:\n  a:\n    command: x\n    queue: -1\n":                               ":4:5: The source a has a negative queue",
		"sources:\n  a:\n    command: x\n    env: {\"A=B\": c}\n":                       ":4:5: The source a has an invalid environment variable",
		"sources:\n  a:\n    command: [sh, /tmp/agents/x.sh]\nworkspace: /tmp/agents\n": ":3:19: The source a runs /tmp/agents/x.sh, which the agent can replace",
		"sources:\n  a:\n    command: /tmp/agents/x\nworkspace: /tmp/agents\n":          ":3:5: The source a runs /tmp/agents/x, which the agent can replace",
	} {
		if _, file, err := loadRules(t, text); err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A link in a directory that the agent may write leads wherever the agent wants.
func TestAProgramBehindALinkOfTheAgent(t *testing.T) {
	work := t.TempDir()
	real := filepath.Join(t.TempDir(), "real.sh")
	if err := os.WriteFile(real, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(work, "link.sh")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := loadRules(t, "workspace: "+work+"\nsources: {a: {command: [sh, "+filepath.Join(work, "link.sh")+"]}}\n"); err == nil || !strings.Contains(err.Error(), "the agent can replace") {
		t.Errorf("%v", err)
	}
	if _, _, err := loadRules(t, "workspace: "+work+"\nsources: {a: {command: [sh, "+real+"]}}\n"); err != nil {
		t.Errorf("control: %v", err)
	}
}
