package workflow

import (
	"strings"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schedule"
)

const (
	// missedAfter is how far behind its moment a run counts as missed.
	missedAfter = time.Minute
	// minEvery is the shortest interval between two runs of a schedule.
	minEvery = time.Minute
	maxCron  = 200
)

// nextRun returns the first run of the schedule after a time, or zero if there is none
// before its end.
func nextRun(w Wait, after time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(w.Zone) // "" is UTC
	if err != nil || w.Zone == "Local" {
		return time.Time{}, fault.InvalidField("timezone", "The time zone %q is unknown. Use a name like Europe/Berlin.", w.Zone)
	}
	if len(w.Cron) > maxCron {
		return time.Time{}, fault.InvalidField("cron", "The schedule is longer than %d characters.", maxCron)
	}
	calendar, err := schedule.Cron(w.Cron, zone)
	if err != nil {
		return time.Time{}, fault.InvalidField("cron", "%s", fault.ToWire(err).Message)
	}
	next := calendar.Next(after)
	if strings.HasPrefix(w.Cron, "@every") && calendar.Next(next).Sub(next) < minEvery {
		return time.Time{}, fault.InvalidField("cron", "A schedule runs at most once in %s.", minEvery)
	}
	if w.Until > 0 && next.UnixMilli() > w.Until {
		return time.Time{}, nil
	}
	return next, nil
}
