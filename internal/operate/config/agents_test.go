package config_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

const agentFile = `
model: anthropic/claude-opus-5
providers: {openai: {apiKey: k}, anthropic: {apiKey: k}}
agents:
  reviewer: {description: "reads\nchanges", model: openai/gpt-5, effort: high, tools: {allow: [read]}, limits: {steps: 3}}
  plain: {}
channels: {"42": {agent: plain, model: openai/gpt-5-mini, effort: low}}
rules: {ci: {when: {type: custom.ci}, do: {agent: {name: reviewer, prompt: Look.}}}}
`

func TestNamedAgents(t *testing.T) {
	c, warnings, err := load(t, agentFile, nil, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, tt := range []struct {
		name string
		in   config.Selection
		want string
	}{
		{"before the choice of people", config.Selection{Model: "openai/gpt-5-nano", Effort: "none", Agent: c.Agents["reviewer"]}, "openai/gpt-5 high"},
		{"before the channel", config.Selection{Channel: c.Channel("discord", "42"), Agent: c.Agents["reviewer"]}, "openai/gpt-5 high"},
		{"without settings of its own", config.Selection{Channel: c.Channel("discord", "42"), Agent: c.Agents["plain"]}, "openai/gpt-5-mini low"},
	} {
		choices, err := c.SelectModels(tt.in)
		if got := names(choices); err != nil || got != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.name, got, err, tt.want)
		}
	}
	for _, tt := range []struct {
		agent, tool string
		want        bool
	}{{"reviewer", "read", true}, {"reviewer", "bash", false}, {"plain", "bash", true}, {"removed", "read", true}, {"removed", "bash", false}} {
		if got := c.Agents.Terms(tt.agent).Tools.Allows(tt.tool); got != tt.want {
			t.Errorf("%s may use %s: %t", tt.agent, tt.tool, got)
		}
	}
	if got := c.Agents.Terms("reviewer").Limits.Steps; got != 3 {
		t.Errorf("the limit is %d steps", got)
	}
	if got := c.Agents.Catalog(); !strings.HasSuffix(got, "- plain\n- reviewer: reads changes") {
		t.Errorf("the catalog is %q", got)
	}
}

func TestMistakesInNamedAgents(t *testing.T) {
	for name, tt := range map[string]struct{ file, want string }{
		"name":         {"agents: {Big: {}}", `:1:10: "Big" is not a name`},
		"effort":       {"agents: {a: {effort: hgh}}", `:1:14: The effort "hgh"`},
		"model":        {"agents: {a: {model: nowhere/x}}", `The model "nowhere/x"`},
		"pattern":      {`agents: {a: {tools: {allow: ["*x"]}}}`, `:1:30: "*x" is not a pattern`},
		"limit":        {"agents: {a: {limits: {steps: -1}}}", "agents.a.limits.steps"},
		"unpriced":     {"model: demo/demo\nagents: {a: {model: openai/unknown-x, limits: {money: 1}}}\nproviders: {openai: {apiKey: k}}", "The agent a has a limit on money"},
		"description":  {"agents: {a: {description: " + strings.Repeat("x", 501) + "}}", "more than 500 bytes"},
		"of a rule":    {"agents: {reviewer: {}}\nrules: {r: {when: {type: custom.x}, do: {agent: {name: reviewr, prompt: x}}}}", `:2:50: There is no agent "reviewr", did you mean "reviewer"?`},
		"of a channel": {"channels: {web: {agent: x}}", `:1:18: There is no agent "x": the configuration has no agents.`},
		"steering":     {"agents: {a: {}}\nrules: {r: {when: {type: custom.x}, do: {agent: {name: a, prompt: x, deliver: steer}}}}", "delivers as steer"},
	} {
		if _, _, err := load(t, tt.file, nil, config.Flags{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
}
