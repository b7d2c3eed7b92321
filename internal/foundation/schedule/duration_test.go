package schedule_test

import (
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"45m": 45 * time.Minute, "36h": 36 * time.Hour, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, "0d1s": time.Second, "0s": 0, "10000d": 240_000 * time.Hour,
	} {
		if got, err := schedule.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "soon", "3", "-3d", "3d-1h", "-1h", "1.5d", "10001d", "1d2d", "99999999999999d", "1h1d"} {
		if got, err := schedule.ParseDuration(text); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
}
