package schedule

import "time"

// What a clock shows is kept as the same digits in UTC: there no hour is left
// out and none comes twice, so the expression is asked about it, and only what
// it answers is found in the zone.

// maxClockChange is more than a change of the clocks can move them: a zone that goes to
// the other side of the date line moves them by a day.
const maxClockChange = 26 * time.Hour

// wallClock is what a clock in the zone of t shows.
func wallClock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// changes reports whether the clocks change near t.
func (s Schedule) clockChangesNear(t time.Time) bool {
	begin, end := t.In(s.zone).ZoneBounds()
	return !begin.IsZero() && t.Sub(begin) <= maxClockChange || !end.IsZero() && end.Sub(t) <= maxClockChange
}

// moments are when something due at the time w of the clock happens: then; or,
// when the clock leaves w out, as much later as it was moved; or, when it shows
// w twice, the first time, or both if it is for every hour.
func (s Schedule) instants(w time.Time) []time.Time {
	// A zone is at most 14 hours ahead of UTC and 12 behind it.
	before, after := s.atOffset(w, w.Add(-15*time.Hour)), s.atOffset(w, w.Add(13*time.Hour))
	switch first, second := wallClock(before).Equal(w), wallClock(after).Equal(w); {
	case first && second && !before.Equal(after) && s.hourly:
		return []time.Time{before, after}
	case !first && second:
		return []time.Time{after}
	}
	return []time.Time{before}
}

// at is the moment at which a clock would show w with the offset that is in
// force at t.
func (s Schedule) atOffset(w, t time.Time) time.Time {
	_, offset := t.In(s.zone).Zone()
	return w.Add(-time.Duration(offset) * time.Second).In(s.zone)
}
