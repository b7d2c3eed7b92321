package clock

import (
	"cmp"
	"errors"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
	"lilac/internal/foundation/setting"
)

// Config is an entry of the section "timers" of the configuration: an event at
// configured times.
type Config struct {
	Cron     string           `json:"cron,omitempty" jsonschema:"Schedule: minute, hour, day of the month, month, day of the week, as in 30 8 * * 1-5; or @hourly, @daily, @weekly, @monthly, @yearly."`
	TimeZone string           `json:"timeZone,omitempty" jsonschema:"The time zone of cron: a name such as Europe/Berlin, UTC, or Local. Default: limits.timeZone."`
	Every    setting.Duration `json:"every,omitempty" jsonschema:"Alternative to cron: an interval in whole seconds, for example 10m. It fires at multiples since 1970 in UTC, whenever Lilac started."`
	Missed   string           `json:"missed,omitempty" jsonschema:"What to do about times that passed while Lilac was down or the machine was suspended: once (default) fires once for all of them; skip ignores them, except one less than a minute ago."`
}

// The policies for times that passed while Lilac was not running.
const (
	missedOnce = "once"
	missedSkip = "skip"
)

// Timer compiles the entry with a name. zone is the default time zone. Errors name the
// fields below field.
func (c Config) Timer(field, name, zone string) (Timer, error) {
	s, text, err := c.schedule(field, cmp.Or(c.TimeZone, zone))
	switch c.Missed {
	case "", missedOnce, missedSkip:
	default:
		err = errors.Join(err, fault.InvalidField(field+".missed", "The timer %s has %q for what is missed; use once or skip.", name, c.Missed))
	}
	return Timer{Name: name, Text: text, Schedule: s, SkipMissed: c.Missed == missedSkip}, err
}

func (c Config) schedule(field, zone string) (schedule.Schedule, string, error) {
	location, err := time.LoadLocation(zone)
	switch {
	case err != nil:
		return schedule.Schedule{}, "", fault.InvalidField(field+".timeZone", "The time zone %q is unknown; use a name such as Europe/Berlin, UTC or Local.", zone)
	case (c.Cron == "") == (c.Every == 0):
		return schedule.Schedule{}, "", fault.InvalidField(field, "A timer has either cron or every.")
	case c.Every != 0:
		s, err := schedule.Every(time.Duration(c.Every))
		return s, "every " + c.Every.String(), fault.InField(field+".every", err)
	}
	s, err := schedule.Cron(c.Cron, location)
	return s, c.Cron + " in " + location.String(), fault.InField(field+".cron", err)
}
