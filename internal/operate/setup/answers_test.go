package setup

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

// load checks the files as the server does.
func load(t *testing.T, files Files) *config.Config {
	t.Helper()
	proposal, err := files.Proposal()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	env := map[string]string{"HOME": home}
	cfg, warnings, err := config.Load(config.Source{
		File: filepath.Join(home, "config.yaml"), Getenv: func(name string) string { return env[name] }, Proposed: proposal,
	})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("load: error %v, warnings %v, of\n%s", err, warnings, files.Config)
	}
	return cfg
}

func TestAnswersBecomeAConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		before  string
		answers Answers
		want    string
		secrets map[string]config.Secret
		model   string
	}{
		"a built-in provider": {
			answers: Answers{Model: &Model{Provider: "anthropic", Name: "claude-sonnet-5-5", Key: "sk-1 "}},
			want:    "providers:\n  anthropic:\n    apiKey: ${ANTHROPIC_API_KEY}\n\nmodel: anthropic/claude-sonnet-5-5\n",
			secrets: map[string]config.Secret{"ANTHROPIC_API_KEY": "sk-1"}, model: "anthropic/claude-sonnet-5-5",
		},
		"a known service": {
			before:  "# Ours.\nmodel: demo # first\n",
			answers: Answers{Model: &Model{Provider: "openrouter", Name: "x/y", Key: "k"}},
			want: "# Ours.\nmodel: openrouter/x/y  # first\n\nproviders:\n  openrouter:\n    type: openai\n" +
				"    baseURL: https://openrouter.ai/api/v1\n    apiKey: ${OPENROUTER_API_KEY}\n",
			secrets: map[string]config.Secret{"OPENROUTER_API_KEY": "k"}, model: "openrouter/x/y",
		},
		"this machine, without a key": {
			answers: Answers{Model: &Model{Provider: "ollama", Name: "qwen3"}},
			want:    "providers:\n  ollama:\n    type: openai\n    baseURL: http://127.0.0.1:11434/v1\n\nmodel: ollama/qwen3\n",
			secrets: map[string]config.Secret{}, model: "ollama/qwen3",
		},
		"a gateway with headers of its own": {
			answers: Answers{Model: &Model{Provider: "portkey", Name: "gpt-5.4", BaseURL: "http://127.0.0.1:8787/v1", Key: "sk-1", Headers: "x-portkey-provider: azure-openai\n\napi-key:a:b \n"}},
			want: "providers:\n  portkey:\n    type: openai\n    baseURL: http://127.0.0.1:8787/v1\n    apiKey: ${PORTKEY_API_KEY}\n    headers:\n" +
				"      x-portkey-provider: ${PORTKEY_HEADER_X_PORTKEY_PROVIDER}\n      api-key: ${PORTKEY_HEADER_API_KEY}\n\nmodel: portkey/gpt-5.4\n",
			secrets: map[string]config.Secret{"PORTKEY_API_KEY": "sk-1", "PORTKEY_HEADER_X_PORTKEY_PROVIDER": "azure-openai", "PORTKEY_HEADER_API_KEY": "a:b"}, model: "portkey/gpt-5.4",
		},
		"the demo again": {
			before: "model: ollama/x\nproviders: {ollama: {type: openai, baseURL: \"http://127.0.0.1:1/v1\"}}\n", answers: Answers{Model: &Model{Provider: "demo"}},
			want:    "model: demo\nproviders: {ollama: {type: openai, baseURL: \"http://127.0.0.1:1/v1\"}}\n",
			secrets: map[string]config.Secret{}, model: "demo",
		},
		"single settings": {
			before: "limits:\n  timeZone: UTC # ours\ncompactAt: 0.5\n",
			answers: Answers{Settings: []Setting{
				{Key: "limits.timeZone", Kind: "text", Value: " Europe/Berlin "},
				{Key: "compactAt", Kind: "number", Reset: true},
				{Key: "limits.request.steps", Kind: "number", Value: "70"},
				{Key: "allowedHosts", Kind: "list", Value: "a.example\n\nb.example"},
				{Key: "surface.discord.allowDMs", Kind: "boolean", Value: "true"},
			}},
			want:    "limits:\n  timeZone: Europe/Berlin  # ours\n  request:\n    steps: 70\n\nallowedHosts:\n  - a.example\n  - b.example\n\nsurface:\n  discord:\n    allowDMs: true\n",
			secrets: map[string]config.Secret{}, model: "demo",
		},
		"Discord": {
			before:  "surface:\n  discord:\n    mode: active # all\n    allowedChannelIds: [\"7\"]\n",
			answers: Answers{Discord: &Discord{Token: "Bot abc", Servers: []string{"42"}}},
			want:    "surface:\n  discord:\n    mode: active # all\n    allowedGuildIds:\n      - \"42\"\n    token: ${DISCORD_TOKEN}\n",
			secrets: map[string]config.Secret{"DISCORD_TOKEN": "abc"}, model: "demo",
		},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := c.answers.Apply(Files{Config: c.before})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Files{c.want, c.secrets}, after); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			for _, secret := range c.secrets {
				if strings.Contains(after.Config, secret.Reveal()+"\n") {
					t.Error("a secret is in the configuration")
				}
			}
			if m, err := load(t, after).ResolveModel(); err != nil || m.String() != c.model {
				t.Errorf("the model is %v, error %v, want %s", m, err, c.model)
			}
		})
	}
}

func TestWrongAnswersNameTheirField(t *testing.T) {
	for field, a := range map[string]Answers{
		"model":     {Model: &Model{Provider: "openai", Key: "k"}},
		"provider":  {Model: &Model{Provider: "No name", Name: "m"}},
		"baseURL":   {Model: &Model{Provider: "antropic"}},
		"key":       {Model: &Model{Provider: "openrouter", Name: "m"}},
		"servers":   {Discord: &Discord{Token: "abc"}},
		"template":  {Rule: &Rule{Template: "other"}},
		"secret":    {Rule: &Rule{Template: "ci", Secret: "short"}},
		"time":      {Rule: &Rule{Template: "weekdays", Time: "25:00"}},
		"value":     {Settings: []Setting{{Key: "compactAt", Kind: "number", Value: "half"}}},
		"directory": {Rule: &Rule{Template: "file", Directory: "relative"}},
	} {
		before := Files{Config: "# mine\n"}
		after, err := a.Apply(before)
		if fault.KindOf(err) != fault.Invalid || fault.ToWire(err).Field != field {
			t.Errorf("%s: error %v of the field %q", field, err, fault.ToWire(err).Field)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: the files changed: %s", field, diff)
		}
	}
}

// The dry run of each template matches its own rule, also if the names are taken.
func TestEachTemplateHandlesItsExample(t *testing.T) {
	for _, template := range Templates {
		files := Files{}
		for _, suffix := range []string{"", "-2"} {
			r := &Rule{Template: template.Name, Secret: "sixteen letters.", Directory: "~/in", Time: "08:05"}
			e, err := r.Example(files, time.UnixMilli(1_760_000_000_000))
			if err != nil {
				t.Fatal(err)
			}
			if files, err = (Answers{Rule: r}).Apply(files); err != nil {
				t.Fatal(err)
			}
			if template.Name == "ci" && suffix != "" {
				continue // both rules handle GitHub's webhook
			}
			rules, err := load(t, files).EnvironmentRules()
			if err != nil {
				t.Fatal(err)
			}
			trial := environment.Try(rules, e, nil)
			if trial.Does != "agent" || trial.Prompt == "" || trial.Problem != "" || !strings.HasSuffix(trial.Rule, suffix) {
				t.Errorf("%s: %+v", template.Name, trial)
			}
		}
	}
}
