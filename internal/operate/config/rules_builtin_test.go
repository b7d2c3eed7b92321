package config_test

import (
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
	"lilac/internal/operate/config"
)

func TestBuiltinRulesCanBeTurnedOff(t *testing.T) {
	trial := func(file string) string {
		t.Helper()
		c, _, err := load(t, file, nil, config.Flags{})
		if err != nil {
			t.Fatal(err)
		}
		own, err := c.EnvironmentRules()
		if err != nil || len(own) != 0 {
			t.Fatalf("%v, %v", own, err)
		}
		builtin := c.BuiltinRules(environment.DefaultRules(environment.DefaultsOptions{}))
		return environment.Try(builtin, event.EnvEvent{ID: "1", Type: "deploy.done"}, nil).Rule
	}
	if got := trial("rules: {fallback: {enabled: false}}\n"); got != "" {
		t.Errorf("with the fallback off, %q handles the event", got)
	}
	for _, file := range []string{"", "rules: {fallback: {enabled: true}}\n", "rules: {session: {enabled: false}}\n"} {
		if got := trial(file); got != "fallback" {
			t.Errorf("control %q: %q handles the event", file, got)
		}
	}
	for file, want := range map[string]string{
		"rules: {user_query: {enabled: false}}\n":                                                 "cannot be turned off",
		"rules: {user_stop: {enabled: false}}\n":                                                  "cannot be turned off",
		"rules: {fallback: {when: {type: a.b}, do: {drop: true}}}\n":                              "can only turn it off",
		"rules: {fallback: {enabled: false, priority: 3}}\n":                                      "can only turn it off",
		"rules: {r: {when: {type: stream.text}, do: {drop: true}}}\n":                             "only shown on the event stream",
		"rules: {r: {when: {type: [a.b, session.message_applied]}, do: {drop: true}}}\n":          "only shown on the event stream",
		"rules: {r: {when: {type: evt.request.lifecycle.changed}, do: {drop: true}}}\n":           "belong to the bus itself",
		"rules: {r: {when: {type: \"evt.*\"}, do: {drop: true}}}\n":                               "belong to the bus itself",
		"rules: {r: {when: {type: \"cmd.request.*\"}, do: {drop: true}}}\n":                       "belong to the bus itself",
		"rules: {r: {when: {type: session.renamed}, do: {agent: {prompt: x}}, session: \"s\"}}\n": "nobody else may",
	} {
		if _, _, err := load(t, file, nil, config.Flags{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	// These can happen.
	for _, types := range []string{`"stream.*"`, `"session.*"`, "stream.completed", "rule.stopped", `"*"`, "my.own", `"my.*"`, "tool.executed"} {
		if _, _, err := load(t, "rules: {r: {when: {type: "+types+"}, do: {drop: true}}}\n", nil, config.Flags{}); err != nil {
			t.Errorf("%s: %v", types, err)
		}
	}
}

// The dry run agrees with the service: no rule receives events that are only shown.
func TestTheDryRunKnowsEventsThatReachNoRule(t *testing.T) {
	builtin := environment.DefaultRules(environment.DefaultsOptions{})
	for _, typ := range []event.Type{event.StreamText, event.SessionMessageApplied, event.RequestLifecycleChanged} {
		got := environment.Try(builtin, event.EnvEvent{ID: "1", Type: typ}, nil)
		if got.Rule != "" || !strings.Contains(got.Problem, "No rule receives events of this type") {
			t.Errorf("%s: %+v", typ, got)
		}
	}
	if got := environment.Try(builtin, event.EnvEvent{ID: "1", Type: event.SessionCreated}, nil); got.Rule != "session" || got.Problem != "" {
		t.Errorf("control: %+v", got)
	}
}
