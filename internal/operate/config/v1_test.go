package config_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

// The guard compares origins as browsers send them: a browser never sends a path or upper case.
func TestOriginsAreThoseThatBrowsersSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin string
		valid  bool
	}{
		{"*", true},
		{"https://chat.example", true},
		{"http://localhost:5173", true},
		{"http://[::1]:5173", true},
		{"app://obsidian.md", true},
		{"chrome-extension://abcdefghijklmnop", true},
		{"https://chat.example/", false},
		{"https://Chat.example", false},
		{"https://me@chat.example", false},
		{"https://*.example", false},
		{"chat.example", false},
		{"null", false},
		{"", false},
	} {
		for _, section := range []string{"v1", "mcp"} {
			_, _, err := load(t, section+`: {origins: ["`+c.origin+`"]}`, nil, config.Flags{})
			if valid := err == nil; valid != c.valid || !valid && !strings.Contains(err.Error(), "is not an origin") {
				t.Errorf("%s %q: %v", section, c.origin, err)
			}
		}
	}
}
