package config_test

import (
	"strings"
	"testing"
	"time"
)

func TestTimersOfTheFile(t *testing.T) {
	c, _, err := loadRules(t, `
limits: {timeZone: Europe/Berlin}
timers:
  morning: {cron: 30 8 * * 1-5}
  night: {cron: "@daily", timeZone: Asia/Tokyo, missed: skip}
  pulse: {every: 10m}
`)
	if err != nil {
		t.Fatal(err)
	}
	timers, err := c.Clock()
	if err != nil || len(timers) != 3 {
		t.Fatalf("%+v, %v", timers, err)
	}
	now := time.Date(2026, 1, 5, 0, 0, 1, 0, time.UTC)
	for i, want := range []string{"2026-01-05T07:30:00Z", "2026-01-05T15:00:00Z", "2026-01-05T00:10:00Z"} {
		if next := timers[i].Schedule.Next(now).UTC().Format(time.RFC3339); next != want {
			t.Errorf("%s comes at %s, want %s", timers[i].Name, next, want)
		}
	}
	if timers[0].SkipMissed || !timers[1].SkipMissed {
		t.Errorf("%+v", timers)
	}
}

func TestTimersWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"timers:\n  a: {}\n":                                        ":2:3: A timer has either cron or every",
		"timers:\n  a: {cron: '@daily', every: 1h}\n":               ":2:3: A timer has either cron or every",
		"timers:\n  a:\n    cron: 61 * * * *\n":                     `:3:5: The cron expression "61 * * * *" is invalid`,
		"timers:\n  a:\n    every: 10ms\n":                          ":3:5: The interval 10ms is invalid. Use whole seconds",
		"timers:\n  a:\n    cron: '@daily'\n    timeZone: Berlin\n": `:4:5: The time zone "Berlin" is unknown`,
		"timers:\n  a:\n    cron: '@daily'\n    missed: twice\n":    `:4:5: The timer a has "twice"`,
		"timers:\n  'a b': {every: 1h}\n":                           `:2:3: "a b" is not a name`,
	} {
		if _, file, err := loadRules(t, text); err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
