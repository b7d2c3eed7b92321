package config_test

import (
	"testing"

	"lilac/internal/operate/config"
)

// YAML's document markers around the only document do not start a second one.
func TestADocumentMayBeSetOff(t *testing.T) {
	for _, text := range []string{"system: one\n---\n", "---\nsystem: one\n---\n# nothing\n", "---\nsystem: one\n...\n", "system: one\n"} {
		c, _, err := load(t, text, nil, config.Flags{})
		if err != nil || c.System != "one" {
			t.Errorf("%q: %v", text, err)
		}
	}
}
