package store

import (
	"encoding/json"
	"errors"
	"time"

	"lilac/internal/core/clock"
	"lilac/internal/engine/db"
)

// timersMigration creates the table of timers. Every slot of a timer up to the time
// in done, in Unix milliseconds, has fired or was omitted.
var timersMigration = db.Migration{Name: "timers.0001-timers", SQL: `
CREATE TABLE timers (
	name     TEXT PRIMARY KEY,
	schedule TEXT NOT NULL,
	done     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

// Timers is the table of timer states.
type Timers struct{}

// TimerState returns the stored state of a timer, or the zero State if there is none.
func (Timers) TimerState(q db.Queryer, name string) (state clock.State, err error) {
	var done int64
	err = q.QueryRow(`SELECT schedule, done FROM timers WHERE name = ?`, name).Scan(&state.Text, &done)
	if errors.Is(err, db.ErrNoRows) {
		return clock.State{}, nil
	}
	state.Done = time.UnixMilli(done)
	return state, wrap("read timer", err)
}

// SetTimerState stores the state of a timer.
func (Timers) SetTimerState(tx *db.Tx, name string, state clock.State) error {
	_, err := tx.Exec(`INSERT INTO timers (name, schedule, done) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET schedule = excluded.schedule, done = excluded.done`, name, state.Text, state.Done.UnixMilli())
	return wrap("keep timer", err)
}

// KeepTimers deletes the states of all timers except the named ones.
func (Timers) KeepTimers(tx *db.Tx, names []string) error {
	raw, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		return wrap("encode timers", err)
	}
	_, err = tx.Exec(`DELETE FROM timers WHERE name NOT IN (SELECT value FROM json_each(?))`, string(raw))
	return wrap("forget timers", err)
}
