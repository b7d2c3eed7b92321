package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/config"
	"lilac/internal/sandbox"
	"lilac/internal/toolserver"
)

// Sockets that the agent may replace by a link would show it what that points to.
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

// The command tools is this program; where the agent may replace that, it is not shown.
func TestAProgramThatTheAgentMayReplaceIsNotShown(t *testing.T) {
	r := start(t, "")
	for dir, want := range map[string]bool{r.p.Config.Workspace: false, r.home: true} {
		program := filepath.Join(dir, "the-program")
		if err := os.WriteFile(program, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		r.p.callables.executable = program
		pass, err := r.p.callables.open(toolserver.Grant{Callables: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		pass.Close()
		if got := slices.ContainsFunc(pass.Binds, func(b sandbox.Bind) bool { return b.Source == program }); got != want {
			t.Errorf("the program in %s is shown: %v", dir, got)
		}
	}
}
