package clock

import "time"

// Decide decides whether a slot of a timer fires. It is pure.
func Decide(s State, in Checked, now time.Time) (State, []Effect) {
	t := in.Timer
	if s.Text != t.Text || s.Done.After(now) {
		// If the clock was set back, the inbox knows the slots that have fired.
		return State{t.Text, now}, nil
	}
	if due := t.Schedule.Next(s.Done); due.IsZero() || due.After(now) {
		return s, nil
	}
	slot := t.Schedule.Latest(now)
	if t.SkipMissed && now.Sub(slot) > Grace {
		return State{t.Text, slot}, nil
	}
	return State{t.Text, slot}, []Effect{Fire{slot}}
}
