package config

import (
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
)

func TestWhatHoldsSomethingOfAllConversationsIsWhereCommandsSeeNothing(t *testing.T) {
	dir := t.TempDir()
	for path, ok := range map[string]bool{filepath.Join(dir, "notes"): true, filepath.Join(dir, "work", "notes"): false, dir: false} {
		c := Default()
		c.Workspace, c.Memory.Dir, c.Workspaces.Dir = filepath.Join(dir, "work"), path, path
		for check, says := range map[string]string{"memory": "could read the notes of others", "workspaces": "could read the files of others"} {
			err := map[string]func() error{"memory": checker{c}.checkMemory, "workspaces": checker{c}.checkWorkspaces}[check]()
			if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v", check, path, err)
			}
		}
	}
}

func TestTheWorkspaceIsSharedWhereTheConfigurationSaysSo(t *testing.T) {
	yes, no := new(bool), new(bool)
	*yes = true
	rule := func(shared *bool) (r environment.RuleConfig) {
		r.Do.Agent.Workspace.Shared = shared
		return r
	}
	rules := map[string]environment.RuleConfig{"shares": rule(yes), "apart": rule(no), "silent": rule(nil)}
	for name, c := range map[string]struct {
		all     bool
		channel *bool
		chosen  session.Workspace
		rules   []string
		want    bool
	}{
		"by default":                             {want: false},
		"for all":                                {all: true, want: true},
		"in the channel":                         {channel: yes, want: true},
		"not in the channel":                     {all: true, channel: no, want: false},
		"chosen":                                 {chosen: session.SharedWorkspace, want: true},
		"the other chosen":                       {all: true, chosen: session.OwnWorkspace, want: false},
		"chosen, but the channel does not share": {channel: no, chosen: session.SharedWorkspace, want: false},
		"a rule":                                 {rules: []string{"shares"}, want: true},
		"a rule in a channel that does not":      {channel: no, rules: []string{"shares"}, want: true},
		"a rule that does not":                   {all: true, rules: []string{"apart"}, want: false},
		"a rule that says nothing":               {rules: []string{"silent"}, want: false},
		"a rule that says nothing, for all":      {all: true, rules: []string{"silent"}, want: true},
		"two rules, and one says nothing":        {rules: []string{"shares", "silent"}, want: false},
		"two rules in a channel that shares":     {channel: yes, rules: []string{"shares", "silent"}, want: true},
		"two rules, and one does not":            {all: true, rules: []string{"shares", "apart"}, want: false},
		"a rule that is gone":                    {rules: []string{"gone"}, want: false},
	} {
		cfg := Config{Rules: rules}
		cfg.Workspaces.Shared = c.all
		var channel Channel
		channel.Workspace.Shared = c.channel
		if got := SharesWorkspace(&cfg, channel, c.rules, c.chosen); got != c.want {
			t.Errorf("%s: shared is %v, want %v", name, got, c.want)
		}
	}
}
