package config_test

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestSettingsInForceSayWhereTheyComeFrom(t *testing.T) {
	const canary = "canary-0123456789abcdef"
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "limits:\n  request:\n    steps: 7\nproviders:\n  own:\n    type: openai\n    baseURL: http://localhost:1/v1\n    apiKey: " + canary + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ANTHROPIC_API_KEY": canary, "LILAC_TOKEN": canary, "LILAC_LOG_LEVEL": "warn", "HOME": t.TempDir()}
	c, _, err := config.Load(config.Source{File: file, Flags: config.Flags{Addr: "127.0.0.1:9"}, Getenv: func(name string) string { return env[name] }})
	if err != nil {
		t.Fatal(err)
	}
	own := c.Providers["own"]
	own.BaseURL = "http://me:" + canary + "@localhost:1/v1"
	c.Providers["own"] = own
	got := map[string]config.Setting{}
	for _, s := range c.InForce() {
		got[s.Key] = s
		if strings.Contains(s.Value, canary) {
			t.Errorf("%s shows a secret: %s", s.Key, s.Value)
		}
	}
	for key, want := range map[string][2]string{
		"addr":                       {"127.0.0.1:9", "flag --addr"},
		"limits.request.steps":       {"7", "the file"},
		"limits.request.time":        {"1h", "default"},
		"log.level":                  {"warn", "LILAC_LOG_LEVEL"},
		"log.format":                 {"auto", "default"},
		"providers.anthropic.apiKey": {"set", "ANTHROPIC_API_KEY"},
		"providers.openai.apiKey":    {"not set", "default"},
		"providers.own.apiKey":       {"set", "the file"},
		"providers.own.baseURL":      {"http://***@localhost:1/v1", "the file"},
		"LILAC_TOKEN":                {"set", "LILAC_TOKEN"},
	} {
		if s := got[key]; s.Value != want[0] || s.Source != want[1] {
			t.Errorf("%s is %q from %q, want %q from %q", key, s.Value, s.Source, want[0], want[1])
		}
	}
	if got["sandbox.mode"].Doc == "" {
		t.Error("a setting does not say what it is for")
	}
}

func TestEveryVariableOfTheEnvironmentIsObeyed(t *testing.T) {
	values := map[string]string{
		"LILAC_ADDR": "127.0.0.1:9", "LILAC_DB_URL": "postgres://db/lilac", "LILAC_NODE_URL": "http://10.0.0.5:7420", "LILAC_BUS_URL": "redis://redis:6379",
		"LILAC_BLOBS": "/srv/blobs", "LILAC_MODEL": "demo", "LILAC_LOG_LEVEL": "warn", "LILAC_LOG_FORMAT": "json",
		"ANTHROPIC_BASE_URL": "http://localhost:1", "OPENAI_BASE_URL": "http://localhost:1/v1",
	}
	needs := map[string][]string{"LILAC_NODE_URL": {"LILAC_DB_URL", "LILAC_TOKEN"}}
	inForce := func(env map[string]string) map[string]config.Setting {
		c, _, err := load(t, "", env, config.Flags{})
		if err != nil {
			t.Fatalf("%v: %v", env, err)
		}
		out := map[string]config.Setting{}
		for _, s := range c.InForce() {
			out[s.Key] = s
		}
		return out
	}
	for _, v := range config.Environment() {
		if v.Key == "" {
			continue
		}
		value := func(name string) string { return cmp.Or(values[name], "/srv/of-"+name) }
		env := map[string]string{v.Name: value(v.Name)}
		before := map[string]string{}
		for _, other := range needs[v.Name] {
			env[other], before[other] = value(other), value(other)
		}
		if s, without := inForce(env)[v.Key], inForce(before)[v.Key]; s.Source != v.Name || s.Value == without.Value {
			t.Errorf("with %s, %s is %q from %q, and %q without", v.Name, v.Key, s.Value, s.Source, without.Value)
		}
	}
}
