package schedule

import "time"

// A wall clock time is represented as the same digits in UTC, where no hour is skipped or
// repeated. Cron expressions are evaluated there, and only the results are converted to
// the time zone.

// maxClockChange is more than the largest clock change: a zone that crosses the date line
// changes by a day.
const maxClockChange = 26 * time.Hour

// wallClock returns the wall clock time of t in its zone.
func wallClock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// clockChangesNear reports whether the clocks change near t.
func (s Schedule) clockChangesNear(t time.Time) bool {
	begin, end := t.In(s.zone).ZoneBounds()
	return !begin.IsZero() && t.Sub(begin) <= maxClockChange || !end.IsZero() && end.Sub(t) <= maxClockChange
}

// instants returns the times of a slot at the wall clock time w. If the clock skips w, the
// slot is later by the size of the change. If w occurs twice, the slot is the first, or
// both for an hourly schedule.
func (s Schedule) instants(w time.Time) []time.Time {
	// Offsets from UTC are between -12 and +14 hours.
	before, after := s.atOffset(w, w.Add(-15*time.Hour)), s.atOffset(w, w.Add(13*time.Hour))
	switch first, second := wallClock(before).Equal(w), wallClock(after).Equal(w); {
	case first && second && !before.Equal(after) && s.hourly:
		return []time.Time{before, after}
	case !first && second:
		return []time.Time{after}
	}
	return []time.Time{before}
}

// atOffset returns the time of the wall clock time w with the offset in force at t.
func (s Schedule) atOffset(w, t time.Time) time.Time {
	_, offset := t.In(s.zone).Zone()
	return w.Add(-time.Duration(offset) * time.Second).In(s.zone)
}
