package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

func TestTheRouterIsConfigured(t *testing.T) {
	for text, field := range map[string]string{
		"router: {debounce: {wait: 0, max: 0}}":    "",
		"router: {gate: demo}":                     "",
		"router: {debounce: {wait: 5s, max: 1s}}":  "router.debounce",
		"router: {gate: nobody/knows}":             "router.gate",
		"router: {gate: openai/gpt-5.4}":           "router.gate", // it has no API key
		"router: {debounce: {wait: 30s}}":          "router.debounce",
		"router: {debounce: {wait: 30s, max: 1m}}": "",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := config.Load(config.Source{File: path, Getenv: func(name string) string {
			return map[string]string{"HOME": t.TempDir()}[name]
		}})
		if got := fault.ToWire(err).Field; err == nil && field != "" || err != nil && got != field {
			t.Errorf("%s: refused for %q (%v), want %q", text, got, err, field)
		}
	}
}
