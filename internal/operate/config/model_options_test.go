package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func loadText(t *testing.T, text string, env map[string]string) (*config.Config, []config.Warning, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Source{File: file, Getenv: func(name string) string {
		if name == "HOME" {
			return t.TempDir()
		}
		return env[name]
	}})
}

func TestModelOptions(t *testing.T) {
	c, warnings, err := loadText(t, `
model: mine/m
providers: {mine: {type: openai, baseURL: "http://127.0.0.1:1/v1", api: responses}}
models:
  mine/m:
    reasoning_effort: high
    max_tokens: 1000
    temperature: 0
    top_p: 0.9
    firstToken: 10m
    headers: {X-Title: "Lilac "}
    body: {service_tier: flex, provider: {order: [a, b]}}
`, nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	m, err := c.ResolveModel()
	if err != nil {
		t.Fatal(err)
	}
	o := m.Options
	if o.Effort != "high" || m.MaxOutputTokens != 1000 || *o.Temperature != 0 || *o.TopP != 0.9 || m.API != config.APIResponses || !m.ContextUnknown ||
		o.Headers["X-Title"] != "Lilac" || o.Body["service_tier"] != "flex" || o.FirstToken == 0 {
		t.Errorf("the choice is %+v", m)
	}
	for wrong, says := range map[string]string{
		"effort: huge": "effort", "temperature: 3": "temperature", "topP: 0": "topP", "body: {messages: []}": "messages",
		`headers: {"a b": c}`: "header", "silence: -1s": "negative",
	} {
		_, _, err := loadText(t, "models: {demo: {"+wrong+"}}", nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error is %v", wrong, err)
		}
	}
}

func TestSecretsAreTrimmedOrRefusedByName(t *testing.T) {
	c, _, err := loadText(t, "webhooks: {ci: {secret: \"${HOOK}\"}}\n", map[string]string{
		"ANTHROPIC_API_KEY": "sk-ant-x\n", "LILAC_TOKEN": " a-long-enough-token\r\n", "HOOK": "a-long-enough-secret-of-a-webhook\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Providers["anthropic"].APIKey.Reveal() != "sk-ant-x" || c.Token.Reveal() != "a-long-enough-token" || strings.HasSuffix(c.Webhooks["ci"].Secret.Reveal(), "\n") {
		t.Error("a secret is not trimmed")
	}
	for name, field := range map[string]string{"OPENAI_API_KEY": "providers.openai.apiKey", "LILAC_TOKEN": "LILAC_TOKEN", "SECOND_KEY": "providers.other.apiKeys[0]"} {
		_, _, err := loadText(t, "providers: {other: {type: openai, baseURL: http://localhost/v1, apiKeys: [\"${SECOND_KEY}\"]}}\n", map[string]string{"SECOND_KEY": "sk-2", name: "first-half-of-it\nsecond-half-of-it"})
		if err == nil || !strings.Contains(err.Error(), field) || strings.Contains(err.Error(), "second-half") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
