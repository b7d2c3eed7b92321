package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

const spentColumns = `steps, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, time_ms`

// addSpent is the clause that adds to an existing row. It clamps each sum to chat.MaxCount:
// SQLite turns an integer sum that overflows into a float, which a STRICT table rejects, so
// that one absurd number would make all later updates fail.
var addSpent = func() string {
	var sums []string
	for column := range strings.SplitSeq(spentColumns, ", ") {
		sums = append(sums, fmt.Sprintf("%[1]s = max(0, min(%[2]d, %[1]s + excluded.%[1]s))", column, int64(chat.MaxCount)))
	}
	return " DO UPDATE SET " + strings.Join(sums, ", ")
}()

// Usage groups the tables of tokens, cost and time per day and per session.
type Usage struct{}

// AddSpent adds usage to a day, in the format "2006-01-02", and to a session.
func (Usage) AddSpent(tx *db.Tx, day, sessionID string, v session.Spent) error {
	u := v.Usage
	args := func(key string) []any {
		return []any{key, v.Steps, u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.CostMicros, v.Time.Milliseconds()}
	}
	_, err := tx.Exec(`INSERT INTO usage_daily (day, `+spentColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day)`+addSpent, args(day)...)
	if err != nil {
		return wrap("count for the day", err)
	}
	_, err = tx.Exec(`INSERT INTO usage_sessions (session_id, `+spentColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id)`+addSpent, args(sessionID)...)
	return wrap("count for the session", err)
}

// SpentOn returns the usage of a day, in the format "2006-01-02".
func (Usage) SpentOn(q db.Queryer, day string) (session.Spent, error) {
	out, err := scanSpent(q.QueryRow(`SELECT `+spentColumns+` FROM usage_daily WHERE day = ?`, day))
	return out, wrap("read what the day has used", err)
}

// SpentIn returns the usage of a session.
func (Usage) SpentIn(q db.Queryer, sessionID string) (session.Spent, error) {
	out, err := scanSpent(q.QueryRow(`SELECT `+spentColumns+` FROM usage_sessions WHERE session_id = ?`, sessionID))
	return out, wrap("read what the session has used", err)
}

func scanSpent(row scanner) (s session.Spent, err error) {
	var ms int64
	u := &s.Usage
	err = row.Scan(&s.Steps, &u.InputTokens, &u.OutputTokens, &u.CacheReadTokens, &u.CacheWriteTokens, &u.CostMicros, &ms)
	if errors.Is(err, db.ErrNoRows) {
		return session.Spent{}, nil
	}
	s.Time = time.Duration(ms) * time.Millisecond
	return s, err
}
