package cli

import (
	"log/slog"
	"strings"
	"testing"

	"lilac/internal/telemetry/logs"
)

// A log on a terminal has colors, except for users who don't want them and terminals without.
func TestTheLogObeysNoColor(t *testing.T) {
	for _, env := range []map[string]string{{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		l := &locator{getenv: func(name string) string { return env[name] }}
		var out strings.Builder
		newLogger(logs.Config{Level: "info", Format: "auto"}, &out, true, l.colorful(), &slog.LevelVar{}, nil).Info("starting")
		if colored := strings.Contains(out.String(), "\x1b["); colored != (len(env) == 0) || !strings.Contains(out.String(), "INF") {
			t.Errorf("%v: %q", env, out.String())
		}
	}
}
