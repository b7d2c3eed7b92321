package config

import (
	"errors"
	"maps"
	"slices"
	"time"

	"lilac/internal/core/clock"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
)

// A Timer publishes an event at configured times.
type Timer struct {
	Cron     string   `json:"cron,omitempty" jsonschema:"Schedule: minute, hour, day of the month, month, day of the week, as in 30 8 * * 1-5; or @hourly, @daily, @weekly, @monthly, @yearly."`
	TimeZone string   `json:"timeZone,omitempty" jsonschema:"The time zone of cron: a name such as Europe/Berlin, UTC, or Local. Default: limits.timeZone."`
	Every    Duration `json:"every,omitempty" jsonschema:"Alternative to cron: an interval in whole seconds, for example 10m. It fires at multiples since 1970 in UTC, whenever Lilac started."`
	Missed   string   `json:"missed,omitempty" jsonschema:"What to do about times that passed while Lilac was down or the machine was suspended: once (default) fires once for all of them; skip ignores them, except one less than a minute ago."`
}

// The policies for times that were missed while Lilac was not running.
const (
	MissedOnce = "once"
	MissedSkip = "skip"
)

// Clock compiles the timers, sorted by name.
func (c *Config) Clock() ([]clock.Timer, error) {
	var out []clock.Timer
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.Timers)) {
		t, field := c.Timers[name], "timers."+name
		if !nameForm().MatchString(name) {
			found = append(found, badName(field, name))
		}
		s, text, err := c.scheduleOf(field, t)
		if err != nil {
			found = append(found, err)
		}
		switch t.Missed {
		case "", MissedOnce, MissedSkip:
		default:
			found = append(found, fault.InvalidField(field+".missed", "The timer %s has %q for what is missed; use once or skip.", name, t.Missed))
		}
		out = append(out, clock.Timer{Name: name, Text: text, Schedule: s, SkipMissed: t.Missed == MissedSkip})
	}
	if err := errors.Join(found...); err != nil {
		return nil, err
	}
	return out, nil
}

func (c *Config) scheduleOf(field string, t Timer) (schedule.Schedule, string, error) {
	zone := t.TimeZone
	if zone == "" {
		zone = c.Limits.TimeZone
	}
	place, err := time.LoadLocation(zone)
	switch {
	case err != nil:
		return schedule.Schedule{}, "", fault.InvalidField(field+".timeZone", "The time zone %q is unknown; use a name such as Europe/Berlin, UTC or Local.", zone)
	case (t.Cron == "") == (t.Every == 0):
		return schedule.Schedule{}, "", fault.InvalidField(field, "A timer has either cron or every.")
	case t.Every != 0:
		s, err := schedule.Every(time.Duration(t.Every))
		return s, "every " + t.Every.String(), inField(field+".every", err)
	}
	s, err := schedule.Cron(t.Cron, place)
	return s, t.Cron + " in " + place.String(), inField(field+".cron", err)
}

// inField prefixes the field of an error with its location in the file.
func inField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fault.InvalidField(field, "%s", fault.ToWire(err).Message)
}

func (c *Config) checkTimers() error {
	_, err := c.Clock()
	return err
}
