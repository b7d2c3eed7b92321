package httpapi

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
)

func changed() SetupChange {
	return SetupChange{Diff: []SetupLine{}, Secrets: []string{}, Restart: []string{}, Warnings: []string{}, Saved: true}
}

// fakeSetup records what it is asked for.
type fakeSetup struct{ asked []string }

func (f *fakeSetup) State(context.Context) (SetupState, error) {
	return SetupState{Fresh: true, Model: "demo", Providers: []SetupProvider{}, Templates: []SetupTemplate{}}, nil
}

func (f *fakeSetup) Models(context.Context, SetupModel) ([]string, error) { return nil, nil }

func (f *fakeSetup) TryModel(_ context.Context, m SetupModel) (SetupModelTrial, error) {
	f.asked = append(f.asked, m.Provider+" "+m.Key)
	return SetupModelTrial{Model: m.Provider, OK: true, Checks: []SetupCheck{}}, nil
}

func (f *fakeSetup) TryDiscord(context.Context, SetupDiscord) (SetupDiscordTrial, error) {
	return SetupDiscordTrial{}, fault.InvalidField("token", "Enter the bot's token.")
}

func (f *fakeSetup) TryRule(_ context.Context, r SetupRule) (environment.Trial, error) {
	return environment.Trial{Rule: r.Template, Matches: []environment.MatchResult{}}, nil
}

func (f *fakeSetup) Change(_ context.Context, a SetupAnswers, save bool) (SetupChange, error) {
	out := changed()
	if out.Saved = save; a.Rule != nil {
		out.Warnings = append(out.Warnings, a.Rule.Template)
	}
	return out, nil
}

func (f *fakeSetup) Undo(context.Context) (SetupChange, error) { return changed(), nil }

func (f *fakeSetup) Restart(context.Context) error {
	f.asked = append(f.asked, "restart")
	return nil
}

func TestSetupRoutes(t *testing.T) {
	f := &fakeSetup{}
	w := newWorld(t, func(o *Options) { o.Setup = f })
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/setup", "", 200, `"fresh":true,"model":"demo"`},
		{"POST", "/setup/models", `{"provider":"openai"}`, 200, `{"models":[]}`},
		{"POST", "/setup/test/model", `{"provider":"openai","key":"k"}`, 200, `"ok":true`},
		{"POST", "/setup/test/discord", `{}`, 400, `"field":"token"`},
		{"POST", "/setup/test/rule", `{"template":"ci"}`, 200, `"rule":"ci"`},
		{"POST", "/setup/preview", `{"rule":{"template":"ci"}}`, 200, `"warnings":["ci"],"saved":false`},
		{"POST", "/setup", `{"rule":{"template":"ci"}}`, 200, `"saved":true`},
		{"POST", "/setup", `{"rule":{"tmplate":"ci"}}`, 400, "tmplate"},
		{"POST", "/setup/undo", "", 200, `"saved":true`},
		{"POST", "/restart", "", 204, ""},
	} {
		if code, body := w.call(tt.method, tt.path, tt.body); code != tt.code || !strings.Contains(body, tt.want) {
			t.Errorf("%s %s %s: %d %s", tt.method, tt.path, tt.body, code, body)
		}
	}
	if got := strings.Join(f.asked, ","); got != "openai k,restart" {
		t.Errorf("asked for %s", got)
	}
}

// Only the operator may change settings, and only where the server can write them.
func TestSetupRefusesOthers(t *testing.T) {
	for name, change := range map[string]func(*Options){"with": func(o *Options) { o.Setup = &fakeSetup{} }, "without": func(*Options) {}} {
		w := newWorld(t, change)
		for _, r := range (setups{}).routes() {
			code, body := w.call(r.method, r.path, "{}", "Authorization", "Bearer nothing-that-is-right")
			if code != http.StatusUnauthorized {
				t.Errorf("%s a setup, %s %s with a wrong token: %d %s", name, r.method, r.path, code, body)
			}
			if code, body := w.call(r.method, r.path, "{}"); name == "without" && (code != http.StatusServiceUnavailable || !strings.Contains(body, "no_setup")) {
				t.Errorf("%s %s without a setup: %d %s", r.method, r.path, code, body)
			}
		}
	}
}
