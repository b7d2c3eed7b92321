package clock_test

import (
	"testing"
	"time"

	"lilac/internal/core/clock"
	"lilac/internal/foundation/schedule"
	"lilac/internal/testkit/effort"
)

func timer(t testing.TB, cron, zone string, skip bool) clock.Timer {
	t.Helper()
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.Cron(cron, place)
	if err != nil {
		t.Fatal(err)
	}
	return clock.Timer{Name: "t", Text: cron, Schedule: s, SkipMissed: skip}
}

func at(s string) time.Time {
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return when
}

// decide returns the slot that fires, the next state, and the next slot.
func decide(t clock.Timer, s clock.State, now time.Time) (fire time.Time, after clock.State, next time.Time) {
	after, effects := clock.Decide(s, clock.Checked{Timer: t}, now)
	for _, e := range effects {
		fire = e.(clock.Fire).Slot
	}
	return fire, after, t.Schedule.Next(now)
}

func TestDecide(t *testing.T) {
	const eight = "0 8 * * *"
	for name, c := range map[string]struct {
		skip       bool
		text, done string // what is remembered
		now        string
		fire, then string // then is Done afterwards
	}{
		"new: from the next slot":               {false, "", "", "2026-01-05T09:00:00Z", "", "2026-01-05T09:00:00Z"},
		"another schedule: from the next slot":  {false, "0 7 * * *", "2026-01-05T07:00:00Z", "2026-01-05T09:00:00Z", "", "2026-01-05T09:00:00Z"},
		"nothing is due":                        {false, eight, "2026-01-05T08:00:00Z", "2026-01-05T09:00:00Z", "", "2026-01-05T08:00:00Z"},
		"due":                                   {false, eight, "2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z"},
		"due and a little late, skipping":       {true, eight, "2026-01-05T08:00:00Z", "2026-01-06T08:01:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z"},
		"missed: the newest, once":              {false, eight, "2026-01-01T08:00:00Z", "2026-01-06T23:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z"},
		"missed: left out":                      {true, eight, "2026-01-01T08:00:00Z", "2026-01-06T23:00:00Z", "", "2026-01-06T08:00:00Z"},
		"missed and due: one is due":            {true, eight, "2026-01-01T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z"},
		"the clock was set back":                {false, eight, "2030-01-01T08:00:00Z", "2026-01-06T09:00:00Z", "", "2026-01-06T09:00:00Z"},
		"and goes on":                           {false, eight, "2026-01-06T09:00:00Z", "2026-01-07T08:00:00Z", "2026-01-07T08:00:00Z", "2026-01-07T08:00:00Z"},
		"set back over a slot: it is due again": {false, eight, "2026-01-06T07:59:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z", "2026-01-06T08:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			before := clock.State{Text: c.text}
			if c.done != "" {
				before.Done = at(c.done)
			}
			fire, after, next := decide(timer(t, eight, "UTC", c.skip), before, at(c.now))
			if (c.fire == "") != fire.IsZero() || c.fire != "" && !fire.Equal(at(c.fire)) {
				t.Errorf("fires %s, want %q", fire, c.fire)
			}
			if after.Text != eight || !after.Done.Equal(at(c.then)) {
				t.Errorf("remembers %+v, want %s", after, c.then)
			}
			if !next.After(at(c.now)) {
				t.Errorf("asks again at %s", next)
			}
		})
	}
}

// TestAYearWithEveryKindOfTrouble lets a clock run, stop, jump and be set back
// through a year with its changes for the summer, and counts each slot.
func TestAYearWithEveryKindOfTrouble(t *testing.T) {
	effort.SkipSlow(t)
	for _, cron := range []string{"30 2 * * *", "*/30 * * * *", "0 0 1 * *"} {
		tm := timer(t, cron, "Europe/Berlin", false)
		now, end := at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")
		state := clock.State{}
		fired := map[int64]int{}
		for i := 0; now.Before(end); i++ {
			var fire time.Time
			fire, state, _ = decide(tm, state, now)
			if !fire.IsZero() {
				fired[fire.Unix()]++
				if fire.After(now) || !tm.Schedule.Next(fire.Add(-time.Second)).Equal(fire) {
					t.Fatalf("%s fired at %s, which is no slot", fire, now)
				}
			}
			switch {
			case i%37 == 0:
				now = now.Add(-90 * time.Minute)
			case i%11 == 0:
				now = now.Add(11 * time.Hour)
			default:
				now = now.Add(3 * time.Hour)
			}
		}
		again := 0
		for _, n := range fired {
			if n > 1 {
				again++
			}
		}
		// Setting back fires a slot again, under the id that it had; nothing else does.
		if len(fired) < 10 || again > len(fired)/10 {
			t.Errorf("%s: %d slots fired, %d of them again", cron, len(fired), again)
		}
	}
}
