package schedule_test

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func at(t testing.TB, s string) time.Time {
	t.Helper()
	when, err := time.Parse("2006-01-02 15:04:05Z07:00", s)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

// TestSlots checks the next slots after a time.
func TestSlots(t *testing.T) {
	cases := map[string]struct {
		cron, zone, after string
		want              []string
	}{
		"every hour":                   {"0 * * * *", "UTC", "2026-01-01 00:30:00Z", []string{"2026-01-01 01:00:00Z", "2026-01-01 02:00:00Z"}},
		"a slot is not after itself":   {"0 * * * *", "UTC", "2026-01-01 01:00:00Z", []string{"2026-01-01 02:00:00Z"}},
		"fractions of a second":        {"0 * * * *", "UTC", "2026-01-01 00:59:59.999Z", []string{"2026-01-01 01:00:00Z"}},
		"in a zone":                    {"30 8 * * 1-5", "Europe/Berlin", "2026-01-02 12:00:00Z", []string{"2026-01-05 07:30:00Z", "2026-01-06 07:30:00Z"}},
		"a name":                       {"@daily", "Asia/Tokyo", "2026-01-01 00:00:00Z", []string{"2026-01-01 15:00:00Z", "2026-01-02 15:00:00Z"}},
		"an interval":                  {"@every 10m", "", "2026-01-01 00:05:01Z", []string{"2026-01-01 00:10:00Z", "2026-01-01 00:20:00Z"}},
		"an interval before 1970":      {"@every 1h", "", "1969-12-31 22:30:00Z", []string{"1969-12-31 23:00:00Z", "1970-01-01 00:00:00Z"}},
		"day of month or of week":      {"0 0 13 * 5", "UTC", "2026-03-01 00:00:00Z", []string{"2026-03-06 00:00:00Z", "2026-03-13 00:00:00Z", "2026-03-20 00:00:00Z"}},
		"first Monday":                 {"0 9 * * MON#1", "UTC", "2026-01-01 00:00:00Z", []string{"2026-01-05 09:00:00Z", "2026-02-02 09:00:00Z"}},
		"the end of the month":         {"0 0 L * *", "UTC", "2026-02-01 00:00:00Z", []string{"2026-02-28 00:00:00Z", "2026-03-31 00:00:00Z"}},
		"29th of February":             {"0 0 29 2 *", "UTC", "2096-03-01 00:00:00Z", []string{"2104-02-29 00:00:00Z"}},
		"year's end":                   {"59 23 31 12 *", "UTC", "2026-12-31 23:59:00Z", []string{"2027-12-31 23:59:00Z"}},
		"left-out hour: right after":   {"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00:00Z", []string{"2026-03-29 01:30:00Z", "2026-03-30 00:30:00Z"}},
		"left-out hour: asked in it":   {"30 2 * * *", "Europe/Berlin", "2026-03-29 01:10:00Z", []string{"2026-03-29 01:30:00Z", "2026-03-30 00:30:00Z"}},
		"left-out hour: every hour":    {"30 * * * *", "Europe/Berlin", "2026-03-29 00:00:00Z", []string{"2026-03-29 00:30:00Z", "2026-03-29 01:30:00Z", "2026-03-29 02:30:00Z"}},
		"left-out hour: both hours":    {"30 2,3 * * *", "Europe/Berlin", "2026-03-29 00:00:00Z", []string{"2026-03-29 01:30:00Z", "2026-03-30 00:30:00Z"}},
		"left-out hour: in America":    {"0 2 * * *", "America/New_York", "2026-03-08 00:00:00Z", []string{"2026-03-08 07:00:00Z", "2026-03-09 06:00:00Z"}},
		"repeated hour: once":          {"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00:00Z", []string{"2026-10-25 00:30:00Z", "2026-10-26 01:30:00Z"}},
		"repeated hour: asked between": {"30 2 * * *", "Europe/Berlin", "2026-10-25 00:45:00Z", []string{"2026-10-26 01:30:00Z"}},
		"repeated hour: asked in it":   {"30 2 * * *", "Europe/Berlin", "2026-10-25 01:10:00Z", []string{"2026-10-26 01:30:00Z"}},
		"repeated hour: every hour":    {"30 * * * *", "Europe/Berlin", "2026-10-25 00:00:00Z", []string{"2026-10-25 00:30:00Z", "2026-10-25 01:30:00Z", "2026-10-25 02:30:00Z"}},
		"repeated hour: after it":      {"0 3 * * *", "Europe/Berlin", "2026-10-25 01:10:00Z", []string{"2026-10-25 02:00:00Z"}},
		"half an hour repeated":        {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00:00Z", []string{"2026-04-04 14:45:00Z", "2026-04-05 15:15:00Z"}},
		"half an hour left out":        {"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00:00Z", []string{"2026-10-03 15:45:00Z", "2026-10-04 15:15:00Z"}},
		"a day left out":               {"0 9 * * *", "Pacific/Apia", "2011-12-29 12:00:00Z", []string{"2011-12-29 19:00:00Z", "2011-12-30 19:00:00Z", "2011-12-31 19:00:00Z"}},
		"midnight left out":            {"0 0 * * *", "Africa/Cairo", "2026-04-23 12:00:00Z", []string{"2026-04-23 22:00:00Z", "2026-04-24 21:00:00Z"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.Cron(c.cron, zone(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			now := at(t, c.after)
			for _, want := range c.want {
				next := s.Next(now)
				if !next.Equal(at(t, want)) {
					t.Fatalf("after %s comes %s, want %s", now.UTC(), next.UTC(), want)
				}
				if latest := s.Latest(next); !latest.Equal(next) {
					t.Errorf("the latest slot at %s is %s", next.UTC(), latest.UTC())
				}
				now = next
			}
		})
	}
}

func TestWhatIsNoScheduleIsRefused(t *testing.T) {
	for _, bad := range []string{
		"", " ", "@", "@never", "@every", "@every 0s", "@every 1ms", "@every 1.5s", "@every -1h", "@every soon",
		"* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "0 0 30 2 *", "*/0 * * * *", "a b c d e",
		"TZ=0 * * * * *", "CRON_TZ=Europe/Berlin 0 * * * *", "TZ=", "H * * * *", "5-1/0 * * * *",
	} {
		s, err := schedule.Cron(bad, time.UTC)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
		if !s.Next(time.Now()).IsZero() || !s.Latest(time.Now()).IsZero() {
			t.Errorf("%q is due", bad)
		}
	}
}

func TestCronErrorsNameTheField(t *testing.T) {
	for expression, want := range map[string]string{
		"60 * * * *":     "60 is not a valid minute (0 to 59)",
		"* 24 * * *":     "24 is not a valid hour (0 to 23)",
		"0 0 1,32 * *":   "32 is not a valid day of the month (1 to 31)",
		"0 0 1 1-13/2 *": "13 is not a valid month (1 to 12)",
		"0 0 * * 8":      "8 is not a valid day of the week (0 to 7)",
		"* * * *":        "it has 4 fields, but needs five",
		"a b c d e":      "Use five fields",
	} {
		if _, err := schedule.Cron(expression, nil); err == nil || !strings.Contains(fault.ToWire(err).Message, want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
}

// TestSlotsDoNotDependOnTheQuestion checks that the slots around each clock change are the
// same, whatever time the search starts from.
func TestSlotsDoNotDependOnTheQuestion(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "UTC"} {
		for _, expression := range []string{"30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "0 0 * * *", "15 0,2 * * 0", "30 1 1-28 * *"} {
			s, err := schedule.Cron(expression, zone(t, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range []string{"2026-03-07", "2026-03-28", "2026-04-04", "2026-04-23", "2026-09-05", "2026-10-03", "2026-10-24", "2026-10-29", "2026-10-31"} {
				begin := at(t, day+" 00:00:00Z")
				end := begin.Add(72 * time.Hour)
				slots := map[time.Time]bool{}
				for slot := s.Next(begin); slot.Before(end); slot = s.Next(slot) {
					slots[slot.UTC()] = true
				}
				for asked := begin; asked.Before(end); asked = asked.Add(53 * time.Minute) {
					if next := s.Next(asked); next.Before(end) && !slots[next.UTC()] {
						t.Errorf("%s in %s: asked at %s it is due at %s, and not otherwise", expression, name, asked, next.UTC())
					}
				}
			}
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, s := range []string{"* * * * *", "30 8 * * 1-5", "@every 10m", "0 0 L * *", "0 0 15W * FRI#L", "TZ=0 * * * * *", "59-1 22-3/2 1,2 */3 SUN"} {
		f.Add(s, int64(1_790_000_000))
	}
	berlin := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expression string, unix int64) {
		s, err := schedule.Cron(expression, berlin)
		if err != nil {
			return
		}
		now := time.Unix(unix%5_000_000_000, 0)
		next := s.Next(now)
		if !next.IsZero() && !next.After(now) {
			t.Errorf("%q: %s is not after %s", expression, next, now)
		}
		if latest := s.Latest(now); latest.After(now) || (!latest.IsZero() && !s.Next(latest).After(now) && !s.Next(latest).IsZero()) {
			t.Errorf("%q: %s is not the latest at %s", expression, latest, now)
		}
	})
}
