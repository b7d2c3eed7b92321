package environment_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
)

func rule(name string, priority int, types ...string) environment.Rule {
	return environment.Rule{Name: name, Types: types, Enabled: true, Priority: priority}
}

func TestMatch(t *testing.T) {
	off := rule("off", 1000, "*")
	off.Enabled = false
	defaults := environment.DefaultRules(environment.DefaultsOptions{})
	cases := map[string]struct {
		rules []environment.Rule
		typ   event.Type
		want  string
	}{
		"rule_matching_exact":                             {[]environment.Rule{rule("a", 0, "a.b"), rule("c", 0, "a.c")}, "a.c", "c"},
		"rule_matching_exact: not a prefix":               {[]environment.Rule{rule("a", 0, "a")}, "a.b", ""},
		"rule_matching_array":                             {[]environment.Rule{rule("list", 0, "x", "y", "z")}, "y", "list"},
		"rule_matching_wildcard":                          {[]environment.Rule{rule("a", 5, "a"), rule("all", 0, "*")}, "b", "all"},
		"rule_matching_wildcard: prefix":                  {[]environment.Rule{rule("p", 0, "a.*")}, "a.b.c", "p"},
		"rule_matching_wildcard: prefix needs the dot":    {[]environment.Rule{rule("p", 0, "a.*")}, "ab", ""},
		"rule_matching_wildcard: prefix is not itself":    {[]environment.Rule{rule("p", 0, "a.*")}, "a", ""},
		"rule_priority":                                   {[]environment.Rule{rule("low", 1, "*"), rule("high", 9, "*")}, "b", "high"},
		"rule_priority: general beats exact":              {[]environment.Rule{rule("exact", 1, "b"), rule("all", 2, "*")}, "b", "all"},
		"rule_priority: then the first registered":        {[]environment.Rule{rule("first", 1, "*"), rule("second", 1, "*")}, "b", "first"},
		"rule_priority: negative still matches":           {[]environment.Rule{rule("neg", -5, "*")}, "b", "neg"},
		"a disabled rule does not match":                  {[]environment.Rule{off, rule("on", 1, "*")}, "b", "on"},
		"publish_unknown_type":                            {defaults[:3], "custom.x", ""},
		"initEventRules_registers: user_query":            {defaults, event.UserQuery, "user_query"},
		"a stop goes where what it stops went":            {defaults, event.UserStop, "user_stop"},
		"initEventRules_registers: session.created":       {defaults, event.SessionCreated, "session"},
		"initEventRules_registers: background_task":       {defaults, event.BackgroundTaskCompleted, "background_task"},
		"initEventRules_registers: fallback":              {defaults, event.BackgroundTaskStopped, "fallback"},
		"our own output never buys a model call":          {defaults, event.StreamCompleted, ""},
		"our own tools never buy a model call":            {defaults, event.ToolExecuted, ""},
		"a stopped rule never buys a model call":          {defaults, event.RuleStopped, ""},
		"fallback_rule_matches":                           {defaults, "webhook.received", "fallback"},
		"observer-only session.* never matches *":         {[]environment.Rule{rule("all", 0, "*")}, "session.updated", ""},
		"observer-only stream.* never matches *":          {[]environment.Rule{rule("all", 0, "*")}, event.StreamText, ""},
		"observer-only tool.executed never matches *":     {[]environment.Rule{rule("all", 0, "*")}, event.ToolExecuted, ""},
		"observer-only started never matches *":           {[]environment.Rule{rule("all", 0, "*")}, "background_task.started", ""},
		"observer-only progress never matches *":          {[]environment.Rule{rule("all", 0, "*")}, "background_task.progress", ""},
		"observer-only matches a rule that names it":      {[]environment.Rule{rule("all", 9, "*"), rule("named", 0, "stream.*")}, event.StreamError, "named"},
		"a tool's error is not observer-only":             {[]environment.Rule{rule("all", 0, "*")}, event.ToolFailed, "all"},
		"a finished background task is not observer-only": {[]environment.Rule{rule("all", 0, "*")}, event.BackgroundTaskCompleted, "all"},
		"no rules": {nil, "a", ""},
	}
	told := event.EnvEvent{Type: event.ToolFailed, Metadata: event.EnvMetadata{Extra: map[string]json.RawMessage{event.MetadataRequest: []byte(`"web:s:1"`)}}}
	t.Run("a tool's error that the agent was told never buys a model call", func(t *testing.T) {
		if got, ok, results := environment.Match(defaults, told); ok {
			t.Errorf("it matches %s, %v", got.Name, results)
		}
	})
	t.Run("a tool's error that the agent was told matches a rule that names it", func(t *testing.T) {
		if got, _, _ := environment.Match(append(defaults, rule("named", 0, "tool.*")), told); got.Name != "named" {
			t.Errorf("it matches %q", got.Name)
		}
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok, _ := environment.Match(c.rules, event.EnvEvent{Type: c.typ})
			if got.Name != c.want || ok != (c.want != "") {
				t.Errorf("%s matches %q, want %q", c.typ, got.Name, c.want)
			}
		})
	}
}

// Who stops a task is told by the tool; others are told by the agent.
func TestAStopOfTheAgentItselfBuysNoModelCall(t *testing.T) {
	for by, want := range map[string]string{"agent": "background_task_stopped", "person": "fallback"} {
		e := event.EnvEvent{Type: event.BackgroundTaskStopped, Payload: []byte(`{"taskId":"t","stoppedBy":"` + by + `"}`)}
		if got, _, _ := environment.Match(environment.DefaultRules(environment.DefaultsOptions{}), e); got.Name != want {
			t.Errorf("stopped by %s: rule %s, want %s", by, got.Name, want)
		}
	}
}
