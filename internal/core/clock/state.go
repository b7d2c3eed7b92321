package clock

import (
	"time"

	"lilac/internal/foundation/schedule"
)

// Grace is the delay up to which a slot counts as on time.
const Grace = time.Minute

// Timer is a named schedule.
type Timer struct {
	Name string
	// Text is the configured schedule with its zone. A changed text is a new
	// schedule.
	Text     string
	Schedule schedule.Schedule
	// SkipMissed omits a slot that passed while the process was down.
	SkipMissed bool
}

// A timer has one state. These are its transitions when it is checked:
//
//	state                             condition             fires   next
//	new, or another schedule          -                     no      done up to now
//	done up to a time in the future   the clock went back   no      done up to now
//	done up to a slot                 no slot is due        no      same
//	done up to a slot                 slots are due         newest  done up to the newest
//	done up to a slot                 due, late, skip       no      done up to the newest
type State struct {
	// Text is the schedule that Done belongs to; "" for a new timer.
	Text string
	// Done is the time up to which every slot has fired or was omitted.
	Done time.Time
}

// Checked is the input: the timer may be due.
type Checked struct{ Timer Timer }

// Effect is one thing to do when the state is saved.
type Effect interface{ effect() }

// Fire publishes the event of a slot.
type Fire struct{ Slot time.Time }

func (Fire) effect() {}
