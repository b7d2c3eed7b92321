package grant

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestAPatternMatchesANameAndTheNamesBelowIt(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"bash", "bash", true},
		{"bash", "bashful", false},
		{"*", "surface.messages.send", true},
		{"workflow", "workflow.schedule", true},
		{"task", "task", true},
		{"task", "task.start", true},
		{"task.*", "task.start", true},
		{"task.*", "task", false},
		{"surface.messages.*", "surface.messages.send", true},
		{"surface.messages.*", "surface.messages", false},
		{"surface.messages.*", "surface.reactions.add", false},
		{"surface.mess", "surface.messages.send", false},
		{"", "bash", false},
		{"mcp.files", "mcp__files__read_file", true},
		{"mcp.files.read_file", "mcp__files__read_file", true},
		{"mcp.files.read__all", "mcp__files__read__all", true},
		{"mcp.other", "mcp__files__read_file", false},
		{"bash", "mcp__files__bash", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v, want %v", c.pattern, c.name, got, c.want)
		}
	}
}

func TestEveryRestrictionMustAllowAName(t *testing.T) {
	rule := Tools{From: "the rule ci", Allow: []string{"read", "bash", "surface.messages.*"}, Deny: []string{"surface.messages.delete"}}
	channel := Tools{From: "the channel #ops", Deny: []string{"bash"}}
	for name, c := range map[string]struct {
		grant   Grant
		allowed string
		refused string
	}{
		"nothing configured": {nil, "bash read surface.messages.delete", ""},
		"one rule":           {Of(rule), "bash read surface.messages.send", "surface.messages.delete write task.start"},
		"a rule in a channel": {
			Of(rule).And(Of(channel)), "read surface.messages.send", "bash write",
		},
		"an empty restriction": {Of(Tools{From: "the rule empty"}), "bash", ""},
		"a deny without allow": {Of(channel), "read write", "bash"},
		"everything denied":    {Of(Tools{Deny: []string{"*"}}), "", "read bash"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range strings.Fields(c.allowed) {
				if why := c.grant.Refusal(n); why != "" {
					t.Errorf("%s is refused: %s", n, why)
				}
			}
			for _, n := range strings.Fields(c.refused) {
				if c.grant.Allows(n) || c.grant.Refusal(n) == "" {
					t.Errorf("%s is allowed", n)
				}
			}
		})
	}
}

func TestARefusalNamesItsReasonAndWhatIsAllowed(t *testing.T) {
	g := Of(Tools{From: "the rule ci", Allow: []string{"read", "grep"}}, Tools{From: "the channel 5", Deny: []string{"read"}})
	for name, want := range map[string]string{
		"bash": "The rule ci does not allow bash here. It allows only: read, grep.",
		"read": "The channel 5 does not allow read here.",
		"grep": "",
	} {
		if got := g.Refusal(name); got != want {
			t.Errorf("Refusal(%s) = %q, want %q", name, got, want)
		}
	}
}

// A grant that is passed on through many steps never grows, and stays small.
func TestAndNeverAllowsMoreThanBefore(t *testing.T) {
	names := slices.Concat(Reading, []string{"bash", "task", "task.start", "surface.messages.send", "workflow.schedule"})
	pools := [][]string{nil, {"*"}, {"bash"}, {"surface.*"}, {"read", "task"}, Reading, {"workflow"}}
	var g Grant
	for i := range 500 {
		before := g
		g = g.And(Grant{{From: fmt.Sprint(i % 9), Allow: pools[i%len(pools)], Deny: pools[(i*5+3)%len(pools)]}})
		for _, n := range names {
			if g.Allows(n) && !before.Allows(n) {
				t.Fatalf("step %d: %s was refused and is allowed now", i, n)
			}
		}
		if len(g) > maxParts {
			t.Fatalf("step %d: the grant has %d parts", i, len(g))
		}
	}
}

func TestPatternsAreChecked(t *testing.T) {
	for _, good := range []string{"*", "bash", "get_event_info", "surface.messages.*", "mcp.my-server.*", "mcp.files.readFile"} {
		if err := CheckPattern("tools.allow", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "Bash", "surface.*.send", ".*", "a b", "bash*", "tools/*"} {
		if err := CheckPattern("tools.allow", bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzAPatternNeverMatchesOutsideItsFamily(f *testing.F) {
	f.Add("surface.messages.*", "surface.messages.send")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if pattern != "*" && Match(pattern, name) && !strings.HasPrefix(callableOf(name), strings.TrimSuffix(pattern, ".*")) {
			t.Errorf("%q matches %q", pattern, name)
		}
	})
}
