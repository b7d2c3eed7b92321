package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
)

// at calls a tool in a workspace.
func (b *bench) at(workspace, name string, in args) string {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := b.tools[name].Run(b.t.Context(), tool.Call{ID: "c", Input: raw, RequestID: "web:s:1", SessionID: "s", Client: "web", Workspace: workspace})
	if err != nil {
		b.t.Fatal(err)
	}
	return res.Text
}

// The workspaces of conversations are in a hidden directory, as in the program. Each tool works in
// the one that its call names, and reaches neither another one nor the shared one.
func TestToolsWorkInTheWorkspaceOfTheirCall(t *testing.T) {
	boxes(t, func(t *testing.T, box sandbox.Sandbox) {
		data, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		mine, other := filepath.Join(data, "workspaces", "s-mine"), filepath.Join(data, "workspaces", "s-other")
		for _, dir := range []string{mine, other} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{filepath.Join(data, "token"), filepath.Join(other, "secret.txt")} {
			if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b := newBenchWith(t, builtin.Options{Sandbox: box, Hidden: []string{data}})
		if err := os.WriteFile(filepath.Join(b.dir, "shared.txt"), []byte("hush"), 0o600); err != nil {
			t.Fatal(err)
		}

		b.at(mine, "write", args{"path": "a.txt", "content": "one\n"})
		b.at(mine, "edit", args{"path": filepath.Join(mine, "a.txt"), "old_string": "one", "new_string": "two"})
		for name, got := range map[string]string{
			"read": b.at(mine, "read", args{"path": "a.txt"}), "grep": b.at(mine, "grep", args{"pattern": "two"}),
			"bash": b.at(mine, "bash", args{"command": "pwd; cat a.txt; echo done > b.txt"}),
		} {
			if !strings.Contains(got, "two") {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := b.at(mine, "glob", args{"pattern": "**"}); !strings.Contains(got, "a.txt") || !strings.Contains(got, "b.txt") || strings.Contains(got, "secret") {
			t.Errorf("glob: %q", got)
		}
		for _, path := range []string{filepath.Join(other, "secret.txt"), "../s-other/secret.txt", filepath.Join(data, "token"), filepath.Join(b.dir, "shared.txt")} {
			if got := b.at(mine, "read", args{"path": path}); strings.Contains(got, "hush") {
				t.Errorf("read shows %s", path)
			}
			if got := b.at(mine, "bash", args{"command": "cat " + path}); box.Name() != "off" && strings.Contains(got, "hush") {
				t.Errorf("a command sees %s", path)
			}
		}
		// Controls: each place can be read from where it belongs.
		if got := b.at(other, "bash", args{"command": "cat secret.txt"}); !strings.Contains(got, "hush") {
			t.Errorf("control: %q", got)
		}
		if got := b.at("", "bash", args{"command": "cat shared.txt"}); !strings.Contains(got, "hush") {
			t.Errorf("control: %q", got)
		}
	})
}
