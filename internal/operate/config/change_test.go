package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/operate/config"
)

func TestAdoptTakesWhatIsSafeAndNamesTheRest(t *testing.T) {
	old, _, err := load(t, "addr: 127.0.0.1:1\nsystem: old\nlog: {level: info, format: json}\n", nil, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := load(t, `
addr: 127.0.0.1:2
system: new
allowedHosts: [a.example]
model: local/m
providers: {local: {type: openai, baseURL: "http://127.0.0.1:1/v1", apiKey: some-key}}
limits: {request: {steps: 3}, day: {tokens: 5}}
sandbox: {mode: off}
log: {level: debug, format: text}
`, map[string]string{"LILAC_TOKEN": "0123456789abcdef"}, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	next.DataDir, next.Workspace = old.DataDir, old.Workspace // each load has its own home directory
	got, change := old.Adopt(next)
	want := config.Change{
		Applied: []string{"allowedHosts", "model", "providers", "limits", "system", "log.level"},
		Restart: []string{"addr", "sandbox.mode", "log.format", "LILAC_TOKEN"},
	}
	if diff := cmp.Diff(want, change); diff != "" {
		t.Error(diff)
	}
	if got.Addr != old.Addr || got.Log.Format != "json" || got.Sandbox.Mode != "auto" {
		t.Errorf("what needs a restart changed: %+v", got)
	}
	if got.System != "new" || got.Log.Level != "debug" || got.Limits.Request.Steps != 3 || got.AllowedHosts[0] != "a.example" {
		t.Errorf("what is safe did not change: %+v", got)
	}
	if old.System != "old" || old.Log.Level != "info" {
		t.Error("the old configuration was changed")
	}
	if got.Origin("model") != "the file" || got.Origin("sandbox.mode") != "default" {
		t.Errorf("origins are %q and %q", got.Origin("model"), got.Origin("sandbox.mode"))
	}
	if m, err := got.ResolveModel(); err != nil || m.String() != "local/m" {
		t.Errorf("the model is %v, %v", m, err)
	}
	if _, change := got.Adopt(got); len(change.Applied)+len(change.Restart) > 0 {
		t.Errorf("nothing changed, and it says %+v", change)
	}
	for _, secret := range []string{"0123456789abcdef", "some-key"} {
		if !slices.Contains(next.Secrets(), secret) {
			t.Errorf("%q is not among the secrets", secret)
		}
	}
}

func TestEverySecretIsKnownToTheLog(t *testing.T) {
	c, _, err := load(t, `
providers: {local: {type: openai, baseURL: "http://127.0.0.1:1/v1", apiKey: secret-of-local}}
sandbox: {network: {hosts: {api.example.org: {headers: {Authorization: "Bearer secret-of-a-host"}}}}}
bus: {url: "redis://:secret-of-redis@127.0.0.1:6379/0"}
`, map[string]string{"LILAC_TOKEN": "secret-of-the-operator", "LILAC_METRICS_TOKEN": "secret-of-the-metrics", "GEMINI_API_KEY": "secret-of-gemini"}, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"secret-of-local", "secret-of-a-host", "secret-of-redis", "secret-of-the-operator", "secret-of-the-metrics", "secret-of-gemini"} {
		if !slices.Contains(c.Secrets(), want) {
			t.Errorf("%s is not among the secrets", want)
		}
	}
}
