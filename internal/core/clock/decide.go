package clock

import (
	"time"

	"lilac/internal/foundation/schedule"
)

// Grace is how late a slot may be and still be on time.
const Grace = time.Minute

// Timer is something that happens at times.
type Timer struct {
	Name string
	// Text is the schedule as it was written, with its zone. Another text is
	// another schedule.
	Text     string
	Schedule schedule.Schedule
	// SkipMissed leaves out a slot that passed while nobody was there.
	SkipMissed bool
}

// State is what is remembered of a timer.
type State struct {
	// Text is the schedule that Done is of; "" when nothing is remembered.
	Text string
	// Done is the moment up to which every slot has fired or was left out.
	Done time.Time
}

// Decide says which slot fires now, zero if none does, what is to be remembered,
// and when to ask again.
func Decide(t Timer, s State, now time.Time) (fire time.Time, after State, next time.Time) {
	next = t.Schedule.Next(now)
	if s.Text != t.Text || s.Done.After(now) {
		// It is new, or the clock was set back: a slot that fired already is
		// known by its id.
		return time.Time{}, State{t.Text, now}, next
	}
	if due := t.Schedule.Next(s.Done); due.IsZero() || due.After(now) {
		return time.Time{}, s, next
	}
	slot := t.Schedule.Latest(now)
	if t.SkipMissed && now.Sub(slot) > Grace {
		return time.Time{}, State{t.Text, slot}, next
	}
	return slot, State{t.Text, slot}, next
}
