package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

const channelFile = `
model: [anthropic/claude-opus-5, openai/gpt-5]
providers:
  openai: {apiKey: k, apiKeys: [k2, k]}
  anthropic: {apiKey: k}
entity: {sessions: {discord: {lab: "4711"}}}
channels:
  "42": {model: openai/gpt-5-mini, effort: high, instructions: Be brief.}
  lab: {model: [openai/gpt-5, openai/gpt-5-mini]}
  web: {effort: low}
`

func names(choices []config.ModelChoice) string {
	var out []string
	for _, c := range choices {
		out = append(out, strings.TrimSpace(c.String()+" "+c.Options.Effort))
	}
	return strings.Join(out, ", ")
}

func TestTheModelOfARequest(t *testing.T) {
	c, warnings, err := load(t, channelFile, nil, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	for _, tt := range []struct {
		name string
		in   config.Selection
		want string
	}{
		{"the configured chain", config.Selection{}, "anthropic/claude-opus-5, openai/gpt-5"},
		{"the client's effort", config.Selection{Channel: c.Channel("web", "s1")}, "anthropic/claude-opus-5 low, openai/gpt-5 low"},
		{"the channel", config.Selection{Channel: c.Channel("discord", "42")}, "openai/gpt-5-mini high"},
		{"a thread of the channel", config.Selection{Channel: c.Channel("discord", "43", "42")}, "openai/gpt-5-mini high"},
		{"a named channel", config.Selection{Channel: c.Channel("discord", "4711")}, "openai/gpt-5, openai/gpt-5-mini"},
		{"another channel", config.Selection{Channel: c.Channel("discord", "1")}, "anthropic/claude-opus-5, openai/gpt-5"},
		{"the conversation before the channel", config.Selection{Model: "openai/gpt-5-nano", Effort: "none", Channel: c.Channel("discord", "42")}, "openai/gpt-5-nano none"},
		{"the chain stays behind the conversation's choice", config.Selection{Model: "openai/gpt-5"}, "openai/gpt-5, anthropic/claude-opus-5"},
	} {
		choices, err := c.SelectModels(tt.in)
		if got := names(choices); err != nil || got != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.name, got, err, tt.want)
		}
	}
	if got := strings.Join(c.Selectable(), " "); got != "anthropic/claude-opus-5 openai/gpt-5 openai/gpt-5-mini" {
		t.Errorf("people can select %s", got)
	}
	choices, _ := c.SelectModels(config.Selection{Model: "openai/gpt-5"})
	if keys := choices[0].Keys(); len(keys) != 2 || keys[0] != "k" || keys[1] != "k2" {
		t.Errorf("the keys are %d", len(keys))
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, func(v any) ([]byte, error) { return yaml.Marshal(v) }} {
		text, err := encode(c.Model)
		if err != nil || !strings.Contains(string(text), "gpt-5") {
			t.Errorf("%s, %v", text, err)
		}
		if text, err := encode(config.ModelList{"a/b"}); err != nil || strings.Trim(strings.TrimSpace(string(text)), `"`) != "a/b" {
			t.Errorf("%s, %v", text, err)
		}
	}
}

func TestModelsFromTheEnvironment(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "k", "LILAC_MODEL": " openai/gpt-5 ,openai/gpt-5-mini"}
	c, _, err := load(t, "", env, config.Flags{})
	if err != nil || c.Model.String() != "openai/gpt-5, openai/gpt-5-mini" {
		t.Errorf("%v, %v", c.Model, err)
	}
}

func TestMistakesInChannelsAreFound(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "k"}
	for file, want := range map[string]string{
		"channels: {web: {model: nobody/x}}":                                                     "channels.web.model",
		"channels: {web: {model: [openai/gpt-5, x]}}":                                            "channels.web.model",
		"providers: {openai: {auth: magic}}":                                                     "magic",
		"channels: {web: {effort: huge}}":                                                        "channels.web.effort",
		"model: [openai/gpt-5, nobody/x]":                                                        "nobody",
		"model: openai/gpt-5\nlimits: {day: {money: 5}}\nchannels: {web: {model: openai/zebra}}": "price of openai/zebra",
	} {
		if _, _, err := load(t, file, env, config.Flags{}); err == nil || !strings.Contains(err.Error()+fault.ToWire(err).Field, want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
