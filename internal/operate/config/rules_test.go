package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/operate/config"
)

func loadRules(t *testing.T, text string) (*config.Config, string, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Load(config.Source{File: file, Getenv: func(name string) string {
		if name == "HOME" {
			return dir
		}
		return ""
	}})
	return c, file, err
}

func TestRulesOfTheFile(t *testing.T) {
	c, _, err := loadRules(t, `
rules:
  ci-failed:
    when:
      type: webhook.received
      if: .payload.body.conclusion == "failure" and .payload.body.branch == "main"
    do:
      agent:
        prompt: CI failed on {{ .payload.body.branch }}. Look at the log and say why.
    session: title:ops
    rate: 1/10m
  noise:
    when: {type: [file.changed, "timer.*"]}
    do: {drop: true}
    priority: 20
    enabled: false
`)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := c.EnvironmentRules()
	if err != nil || len(rules) != 2 {
		t.Fatalf("%v, %v", rules, err)
	}
	if rules[1].Enabled || rules[1].Priority != 20 || len(rules[1].Types) != 2 || rules[1].ActionName() != "drop" {
		t.Errorf("%+v", rules[1])
	}
	failed := event.EnvEvent{ID: "1", Type: "webhook.received", Payload: []byte(`{"body":{"conclusion":"failure","branch":"main"}}`)}
	if got := environment.Try(rules, failed, nil); got.Rule != "ci-failed" || got.Session != "title:ops" || !strings.Contains(got.Prompt, `CI failed on "main".`) || got.Rate != "1/10m0s" {
		t.Errorf("%+v", got)
	}
}

func TestMistakesOfRulesAreNamedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"rules:\n  a:\n    when: {type: x}\n    do: {drop: true}\n    rate: often\n":                                                                              ":5:5: The rate",
		"rules:\n  a:\n    when:\n      type: x\n      if: .a ==\n    do: {drop: true}\n":                                                                         ":5:7: The condition of the rule a: the jq expression has an error",
		"rules:\n  a:\n    when: {type: x}\n    do:\n      agent:\n        prompt: a {{ .b\n":                                                                     ":6:9: The prompt",
		"rules:\n  a:\n    do: {drop: true}\n":                                                                                                                    "no event type",
		"rules:\n  a b:\n    when: {type: x}\n    do: {drop: true}\n":                                                                                             "not a name",
		"rules:\n  fallback:\n    when: {type: x}\n    do: {drop: true}\n":                                                                                        "built in",
		"rules:\n  a:\n    when: {type: x}\n    do: {agent: {prompt: x}}\n    budget: {money: 1}\nmodel: openai/nobody-knows\nproviders: {openai: {apiKey: x}}\n": "price",
	} {
		if _, file, err := loadRules(t, text); err == nil || !strings.Contains(err.Error(), want) || strings.HasPrefix(want, ":") && !strings.Contains(err.Error(), file+want) {
			t.Errorf("%s\n%v; want %q", text, err, want)
		}
	}
}

// A configured rule must not replace a built-in rule, so it cannot have its name.
func TestNoRuleIsCalledAsOneOfTheProgram(t *testing.T) {
	own := environment.DefaultRules(environment.DefaultsOptions{})
	if len(own) < 6 {
		t.Errorf("control: only %d rules come with the program", len(own))
	}
	for _, r := range own {
		if _, _, err := loadRules(t, "rules:\n  "+r.Name+":\n    when: {type: x}\n    do: {drop: true}\n"); err == nil || !strings.Contains(err.Error(), "built in") {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestRulesApplyWithoutARestart(t *testing.T) {
	before, _, err := loadRules(t, "log: {level: info}\n")
	if err != nil {
		t.Fatal(err)
	}
	before.Workspace, before.DataDir = "/w", "/d"
	after, _, err := loadRules(t, "rules: {a: {when: {type: x}, do: {drop: true}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	merged, change := before.Adopt(after)
	if len(merged.Rules) != 1 || len(change.Applied) != 1 || change.Applied[0] != "rules" {
		t.Errorf("%+v", change)
	}
}
