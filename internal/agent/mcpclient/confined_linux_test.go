package mcpclient

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/agent/sandbox"
)

// A stdio server sees the workspace as far as its entry says, its own home, and the
// variables that were named; not the data directory, the environment, or the network. The
// control is a server without a sandbox, which sees all of it.
func TestAStdioServerIsConfined(t *testing.T) {
	t.Setenv("LILAC_TEST_CANARY", "canary-in-the-environment")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	box, err := sandbox.Open(t.Context(), sandbox.ModeAuto)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		box         sandbox.Sandbox
		files       string
		reads       bool // the workspace
		writes      bool
		sees, dials bool // the data directory, a service of the machine
	}{
		"write":   {box: box, reads: true, writes: true},
		"read":    {box: box, files: filesRead, reads: true},
		"none":    {box: box, files: filesNone},
		"control": {box: sandbox.Unconfined(), reads: true, writes: true, sees: true, dials: true},
	} {
		t.Run(name, func(t *testing.T) {
			workspace, data := t.TempDir(), t.TempDir()
			for _, file := range []string{filepath.Join(workspace, "note"), filepath.Join(data, "token")} {
				if err := os.WriteFile(file, []byte("canary-in-a-file"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			entry := stdioFake(t, "good")
			entry.Files = c.files
			s := serve(t, Options{
				Sandbox: c.box,
				Policy:  sandbox.Policy{Workspace: workspace, Hidden: []string{data}, Binds: []sandbox.Bind{{Source: entry.Command}}},
				Home: func(name string) (string, error) {
					home := filepath.Join(data, "homes", name)
					return home, os.MkdirAll(home, 0o700)
				},
			}, map[string]ServerConfig{"fake": entry})
			ask := func(tool, text string) string {
				t.Helper()
				got, err := s.Call(t.Context(), "fake", tool, input(t, map[string]any{"text": text}), People{})
				if err != nil {
					t.Fatalf("%s %s: %v: %+v", tool, text, err, s.Status())
				}
				return got.texts()
			}
			env := ask("env", "")
			if strings.Contains(env, "canary") || !strings.Contains(env, "NAMED=a-value") {
				t.Errorf("its environment is %q", env)
			}
			for i, what := range []struct {
				got  string
				want bool
			}{
				{ask("look", filepath.Join(workspace, "note")), c.reads},
				{ask("look", filepath.Join(data, "token")), c.sees},
			} {
				if got := strings.Contains(what.got, "canary-in-a-file"); got != what.want {
					t.Errorf("look %d: %s", i, what.got)
				}
			}
			if got := ask("touch", filepath.Join(workspace, "new")) == "<nil>"; got != c.writes {
				t.Errorf("it writes in the workspace: %v", got)
			}
			if got := ask("dial", listener.Addr().String()) == "<nil>"; got != c.dials {
				t.Errorf("it reaches a service of this machine: %v", got)
			}
			if c.box == box {
				if got := ask("look", "/proc/1/environ"); strings.Contains(got, "canary") {
					t.Error("it reads the environment of another process")
				}
				if got := ask("touch", "/run/lilac/home/kept"); got != "<nil>" {
					t.Errorf("it cannot write in its home: %s", got)
				}
			}
		})
	}
}
