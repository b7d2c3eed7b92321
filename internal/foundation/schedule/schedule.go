package schedule

import (
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"lilac/internal/foundation/fault"
)

// MinEvery is the shortest interval.
const MinEvery = time.Second

// horizon is the number of years to search for a slot: two 29ths of February can be eight
// years apart.
const horizon = 9

var parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.Extended | cron.DowOrDom).
	WithMaxSearchYears(horizon)

// Schedule is a set of times. Create one with [Cron] or [Every]; the zero value is
// empty.
type Schedule struct {
	every time.Duration
	cron  cron.Schedule
	zone  *time.Location
	// hourly marks an expression for every hour.
	hourly bool
}

// Cron parses an expression of five fields (minute, hour, day of the month, month, day of
// the week), or one of @hourly, @daily, @weekly, @monthly, and @yearly, in a time zone;
// nil is UTC. "@every 10m" is like [Every]. As in crontab, if both the day of the month
// and the day of the week are restricted, a day matches if either does. The errors are
// for people.
func Cron(expression string, zone *time.Location) (Schedule, error) {
	if zone == nil {
		zone = time.UTC
	}
	expression = strings.TrimSpace(expression)
	if rest, ok := strings.CutPrefix(expression, "@every "); ok {
		d, err := time.ParseDuration(strings.TrimSpace(rest))
		if err != nil {
			return Schedule{}, fault.New(fault.Invalid, "The interval of %q is invalid. Use a form like 10m or 24h.", expression)
		}
		return Every(d)
	}
	if strings.Contains(expression, "=") {
		return Schedule{}, fault.New(fault.Invalid, "The cron expression %q contains a time zone. Use the separate setting for it.", expression)
	}
	parsed, err := parser.Parse(expression)
	if err != nil {
		if found := fieldOutOfRange(expression); found != "" {
			return Schedule{}, fault.Wrap(fault.Invalid, err, "The cron expression %q is invalid: %s.", expression, found)
		}
		return Schedule{}, fault.Wrap(fault.Invalid, err, "The cron expression %q is invalid. Use five fields: minute, hour, day of the month, month, day of the week, for example 30 8 * * 1-5.", expression)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return Schedule{}, fault.New(fault.Invalid, "The cron expression %q does not have five fields.", expression)
	}
	spec.Location = time.UTC // it computes with wall clock times, see wall.go
	s := Schedule{cron: spec, zone: zone, hourly: spec.Hour&everyHour == everyHour}
	if s.Next(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fault.New(fault.Invalid, "The cron expression %q never matches: there is no such day.", expression)
	}
	return s, nil
}

// everyHour has a bit for each hour.
const everyHour = 1<<24 - 1

// Every returns the multiples of d since the beginning of 1970 in UTC, so 10m is at :00,
// :10, …, independent of the start. d must be whole seconds, at least [MinEvery].
func Every(d time.Duration) (Schedule, error) {
	if d < MinEvery || d%time.Second != 0 {
		return Schedule{}, fault.New(fault.Invalid, "The interval %s is invalid. Use whole seconds, at least %s.", d, MinEvery)
	}
	return Schedule{every: d}, nil
}

// Next returns the first slot after a time, or zero if there is none.
func (s Schedule) Next(after time.Time) time.Time {
	switch {
	case s.every > 0:
		return s.lastMultiple(after).Add(s.every)
	case s.cron == nil:
		return time.Time{}
	}
	from := wallClock(after.In(s.zone))
	if s.clockChangesNear(after) {
		from = from.Add(-maxClockChange)
	}
	var next, nextWall time.Time
	for w := s.cron.Next(from); !w.IsZero(); w = s.cron.Next(w) {
		// Near a clock change, a later wall clock time can come first.
		if !next.IsZero() && (!s.clockChangesNear(next) || w.Sub(nextWall) > maxClockChange) {
			break
		}
		for _, at := range s.instants(w) {
			if at.After(after) && (next.IsZero() || at.Before(next)) {
				next, nextWall = at, w
			}
		}
	}
	return next
}

// lastMultiple returns the newest multiple of the interval that is not after t.
func (s Schedule) lastMultiple(t time.Time) time.Time {
	seconds, step := t.Unix(), int64(s.every/time.Second)
	rest := seconds % step
	if rest < 0 {
		rest += step
	}
	return time.Unix(seconds-rest, 0).UTC()
}

// Latest returns the newest slot that is not after a time, or zero if there is none within
// nine years.
func (s Schedule) Latest(upTo time.Time) time.Time {
	if s.every > 0 {
		return s.lastMultiple(upTo)
	}
	if s.cron == nil {
		return time.Time{}
	}
	// Double the search window until it contains a slot, so that the search is short both
	// for frequent and for yearly schedules.
	now := wallClock(upTo.In(s.zone))
	for back := maxClockChange; back < horizon*366*24*time.Hour; back *= 2 {
		var latest time.Time
		for w := s.cron.Next(now.Add(-back)); !w.IsZero() && w.Sub(now) < maxClockChange; w = s.cron.Next(w) {
			for _, at := range s.instants(w) {
				if !at.After(upTo) && at.After(latest) {
					latest = at
				}
			}
		}
		if !latest.IsZero() {
			return latest
		}
	}
	return time.Time{}
}
