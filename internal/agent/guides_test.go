package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
)

func TestTheModelGetsTheProjectFileOfADirectoryOnceWhenItWorksThere(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	for name, content := range map[string]string{
		filepath.Join(outside, "AGENTS.md"):           "canary",
		filepath.Join(dir, "AGENTS.md"):               "of the workspace",
		filepath.Join(dir, "app", "AGENTS.md"):        "of app",
		filepath.Join(dir, "app", "web", "main.go"):   "package main",
		filepath.Join(dir, "app", "api", "CLAUDE.md"): "of api",
		filepath.Join(dir, "lib", "a.txt"):            "a",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	var known guides
	for _, c := range []struct {
		tool, input string
		want        []string // what the result has, in this order
	}{
		{"read", `{"path":"lib/a.txt"}`, nil},
		{"read", `{"path":"app/web/main.go"}`, []string{"AGENTS.md in app says", "of app"}},
		{"read", `{"path":"app/web/main.go"}`, nil},
		{"bash", `{"command":"ls","dir":"app/api"}`, []string{"CLAUDE.md in app/api says", "of api"}},
		{"write", `{"path":"away/x.txt","content":""}`, nil},
		{"read", `{"path":"../app/web/main.go"}`, nil},
		{"read", `{"path":"."}`, nil},
		{"read", `{"path":7}`, nil},
		{"surface.messages.send", `{"path":"app/x"}`, nil},
	} {
		got := known.beside(dir, chat.ToolCall("c", c.tool, json.RawMessage(c.input)))
		rest := got
		for _, want := range c.want {
			at := strings.Index(rest, want)
			if at < 0 {
				t.Fatalf("%s %s: %q lacks %q", c.tool, c.input, got, want)
			}
			rest = rest[at:]
		}
		if len(c.want) == 0 && got != "" || strings.Contains(got, "canary") || strings.Contains(got, "of the workspace") {
			t.Errorf("%s %s: %q", c.tool, c.input, got)
		}
	}
	// Both at once, the outer one first, also for an absolute path; and not what the model has read
	// itself.
	known = guides{}
	got := known.beside(dir, chat.ToolCall("c", "grep", json.RawMessage(`{"pattern":"x","path":"`+filepath.Join(dir, "app", "api")+`"}`)))
	if app, api := strings.Index(got, "of app"), strings.Index(got, "of api"); app < 0 || api < app {
		t.Errorf("got %q, want the file of app before that of app/api", got)
	}
	known = guides{}
	if got := known.beside(dir, chat.ToolCall("c", "read", json.RawMessage(`{"path":"app/AGENTS.md"}`))); got != "" {
		t.Errorf("a file that the model reads comes with %q", got)
	}
}
