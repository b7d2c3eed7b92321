package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestAnotherCatalogReplacesTheBuiltinOne(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "facts.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"openai": {"models": {"gpt-5": {"limit": {"context": 5000, "output": 50}, "cost": {"input": 7, "output": 8}}}}}`)
	env := map[string]string{"OPENAI_API_KEY": "k"}
	file := "model: openai/gpt-5\ncatalog: " + path + "\nmodels: {openai/gpt-5: {maxOutputTokens: 60}}\n"
	c, _, err := load(t, file, env, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.ResolveModel()
	if err != nil || m.ContextTokens != 5000 || m.MaxOutputTokens != 60 || m.Price == nil || m.Price.Input != 7 || m.Images {
		t.Errorf("the model is %+v (%v)", m, err)
	}
	if other, err := c.LookupModel("openai/gpt-4o"); err != nil || !other.ContextUnknown || other.Price != nil {
		t.Errorf("a model outside of the catalog is %+v (%v)", other, err)
	}

	for text, want := range map[string]string{`{}`: "no models", `nonsense`: "models.dev/api.json"} {
		write(text)
		if _, _, err := load(t, file, env, config.Flags{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := load(t, file, env, config.Flags{}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing catalog: %v", err)
	}
}

func TestModelsAreKnownUnderTheirVendor(t *testing.T) {
	file := "model: gw/anthropic/claude-sonnet-5.5\nproviders: {gw: {type: openai, baseURL: \"http://gw.example/v1\"}}\n"
	c, _, err := load(t, file, nil, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.ResolveModel()
	if err != nil || m.Facts.ID != "claude-sonnet-5-5" || m.ContextTokens != 1_000_000 || !m.Images || !m.Facts.PDFs || m.Price == nil {
		t.Errorf("the model is %+v (%v)", m, err)
	}
}
