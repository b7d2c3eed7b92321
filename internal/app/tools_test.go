package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/agent/web"
	"lilac/internal/foundation/grant"
	"lilac/internal/operate/config"
	"lilac/internal/serve/toolserver"
)

// If the sockets for commands cannot be created, the start fails and leaves nothing open.
func TestSocketsThatCannotBeMadeAreAnError(t *testing.T) {
	home := t.TempDir()
	deep := filepath.Join(home, strings.Repeat("d", 100)) // longer than a socket path may be
	if err := os.Mkdir(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", deep)
	cfg, _, err := config.Load(config.Source{Getenv: func(name string) string {
		return map[string]string{"HOME": home, "LILAC_ADDR": "127.0.0.1:0"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := build(context.Background(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("it is built")
	}
}

// The sockets must not be in a directory that the agent can write to: it could replace them by
// links and see the targets.
func TestTheSocketsOfCommandsAreNotTheirsToReplace(t *testing.T) {
	for _, tt := range []struct{ writable, says string }{
		{"run", "The agent may write in the directory that holds "},
		{"elsewhere", ""},
	} {
		home := t.TempDir()
		for _, dir := range []string{"run", "elsewhere"} {
			if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
		cfg, _, err := config.Load(config.Source{Getenv: func(name string) string {
			return map[string]string{"HOME": home, "LILAC_ADDR": "127.0.0.1:0"}[name]
		}})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Sandbox.Writable = []string{filepath.Join(home, tt.writable)}
		p, err := build(context.Background(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = p.close()
		}
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("writable %s: %v, want %q", tt.writable, err, tt.says)
		}
	}
}

// The command tools is this program itself, or a copy if the agent could replace the program.
func TestAProgramThatTheAgentMayReplaceIsShownAsACopy(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for workspace, want := range map[string]bool{filepath.Dir(own): true, filepath.Join(t.TempDir(), "apart"): false} {
		home := t.TempDir()
		cfg, _, err := config.Load(config.Source{Getenv: func(name string) string {
			return map[string]string{"HOME": home, "LILAC_ADDR": "127.0.0.1:0", "LILAC_WORKSPACE": workspace}[name]
		}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := build(context.Background(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		pass, err := p.callables.mint(toolserver.Grant{Callables: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		pass.Close()
		i := slices.IndexFunc(pass.Binds, func(b sandbox.Bind) bool { return b.Target == toolProgram })
		if i < 0 {
			t.Fatalf("in the workspace %s the program is not shown", workspace)
		}
		shown := pass.Binds[i].Source
		if copied := shown != own; copied != want || copied && within(shown, workspace) {
			t.Errorf("in the workspace %s the program %s is shown", workspace, shown)
		}
		if info, err := os.Stat(shown); err != nil || info.Mode().Perm()&0o100 == 0 || info.Size() == 0 {
			t.Errorf("what is shown is no program: %v, %v", info, err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// The configuration warns about names of tools that do not exist, so its list must be that
// of the program.
func TestTheConfigurationKnowsAllToolsAndCallables(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", home)
	cfg, _, err := config.Load(config.Source{Getenv: func(name string) string {
		return map[string]string{"HOME": home, "LILAC_ADDR": "127.0.0.1:0"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Web = web.Settings{Hosts: []string{"*"}, Search: web.SearchSettings{Provider: "brave", APIKey: "key"}}
	var names []string
	p, err := build(context.Background(), Options{Config: cfg, Logger: slog.New(slog.DiscardHandler), Seams: Seams{Tools: func(tools []tool.Tool) []tool.Tool {
		for _, one := range tools {
			names = append(names, one.Spec().Name)
		}
		return tools
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.callables.families(nil) {
		names = append(names, c.ID)
	}
	slices.Sort(names)
	known := slices.Sorted(slices.Values(config.KnownTools))
	if diff := cmp.Diff(names, known); diff != "" {
		t.Errorf("config.KnownTools differs (-program +configuration)\n%s", diff)
	}
	for _, name := range grant.Reading {
		if !slices.Contains(names, name) {
			t.Errorf("grant.Reading has %s, which does not exist", name)
		}
	}
	for _, c := range p.callables.families(nil) {
		if c.Changes && slices.Contains(grant.Reading, c.ID) {
			t.Errorf("grant.Reading has %s, which changes something", c.ID)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}
