package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A dry run says which agent would work, and what it may use.
func TestADryRunNamesTheAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("agents: {reviewer: {tools: {allow: [read, glob]}}}\nrules: {r: {when: {type: build.failed}, do: {agent: {name: reviewer, prompt: Look.}}, session: s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := call(t, `{"type":"build.failed","payload":{}}`, nil, "--config", file, "rules", "test", "-")
	if code != 0 || !strings.Contains(out, "may use: glob, read\n") || !strings.Contains(out, "Agent: reviewer\n") {
		t.Errorf("exit code %d, %s%s", code, errOut, out)
	}
}

func TestRulesAreTestedWithoutAServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	rules := "rules: {ci: {when: {type: build.*, if: '.payload.branch == \"main\"'}, do: {agent: {system: 'You watch builds.', prompt: 'See {{ .payload.branch }}.'}}, session: ops}}\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := call(t, `{"type":"build.failed","payload":{"branch":"main"}}`, nil, "--config", file, "rules", "test", "-"); !strings.Contains(out, "authority):\nYou watch builds.\n\n") || !strings.Contains(out, `See "main".`) {
		t.Errorf("what the agent is told: %s", out)
	}
	for event, want := range map[string]string{
		`{"type":"build.failed","payload":{"branch":"main"}}`: "ci: yes, agent\n  session: ops\n  deliver: followUp\n",
		`{"type":"build.failed","payload":{"branch":"x"}}`:    "ci: no, its condition does not hold",
		`{"type":"stream.text"}`:                              "No rule handles this event.",
	} {
		out, errOut, code := call(t, event, nil, "--config", file, "rules", "test", "-")
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d\n%s%s", event, code, out, errOut)
		}
	}
	for _, bad := range []string{`{"type":"Build"}`, `nothing`} {
		if _, errOut, code := call(t, bad, nil, "--config", file, "rules", "test", "-"); code == 0 || errOut == "" {
			t.Errorf("%s is taken for an event", bad)
		}
	}
}

func TestRulesAreListedAndEventsPublished(t *testing.T) {
	env := fake(t, map[string]string{
		"GET /rules":   `{"rules":[{"name":"ci","types":["build.*"],"enabled":true,"priority":60,"does":"agent","today":{"agent":2,"rate":7,"budget":1,"depth":1,"noSession":3,"failed":1},"used":{"runs":2,"tokens":30,"costMicros":400},"last":[{"rule":"ci","eventId":"e7","type":"build.failed","sessionId":"s1","requestId":"env:s1:e7","outcome":"agent","depth":1,"at":1760000000000}]}]}`,
		"POST /events": `{"success":true,"id":"e1","duplicate":true}`,
	})
	if out, errOut, code := call(t, "", env, "rules", "list"); code != 0 || !strings.Contains(out, "build.*") || !strings.Contains(out, "$0.0004") || !slices.Contains(strings.Fields(out), "13") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if out, errOut, code := call(t, "", env, "rules", "show", "ci"); code != 0 || !strings.Contains(out, "env:s1:e7") || !strings.Contains(out, "agent") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if _, errOut, code := call(t, "", env, "rules", "show", "none"); code != 4 || !strings.Contains(errOut, "no rule") {
		t.Errorf("%d %s", code, errOut)
	}
	if out, errOut, code := call(t, "", env, "events", "publish", "--type", "a.b", "--id", "e1"); code != 0 || !strings.HasPrefix(out, "e1") || !strings.Contains(out, "already published") {
		t.Errorf("%d %s%s", code, out, errOut)
	}
	if _, _, code := call(t, "", env, "events", "publish", "--type", "a.b", "--payload", "{"); code == 0 {
		t.Error("a payload that is no JSON is published")
	}
}
