package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

// callsMigration creates the table of what models used without a request. The days and sessions
// contain it, too.
var callsMigration = db.Migration{Name: "usage.0001-calls", SQL: `
CREATE TABLE usage_calls (
	id         INTEGER PRIMARY KEY,
	at         INTEGER NOT NULL,
	purpose    TEXT NOT NULL,
	session_id TEXT NOT NULL,
	client     TEXT NOT NULL,
	model      TEXT NOT NULL,
	usage      BLOB NOT NULL
) STRICT;
CREATE INDEX usage_calls_at ON usage_calls (at, id);
`}

const spentColumns = `steps, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_micros, time_ms`

// addSpent is the clause that adds to an existing row of a table. It clamps each sum to
// chat.MaxCount: a sum that overflows would be rejected, so that one absurd number would
// make all later updates fail.
func addSpent(table string) string {
	var sums []string
	for column := range strings.SplitSeq(spentColumns, ", ") {
		sums = append(sums, fmt.Sprintf("%[1]s = CASE WHEN %[3]s.%[1]s + excluded.%[1]s > %[2]d THEN %[2]d WHEN %[3]s.%[1]s + excluded.%[1]s < 0 THEN 0 ELSE %[3]s.%[1]s + excluded.%[1]s END",
			column, int64(chat.MaxCount), table))
	}
	return " DO UPDATE SET " + strings.Join(sums, ", ")
}

var (
	addDaily   = `INSERT INTO usage_daily (day, ` + spentColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (day)` + addSpent("usage_daily")
	addSession = `INSERT INTO usage_sessions (session_id, ` + spentColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session_id)` + addSpent("usage_sessions")
)

// Usage groups the tables of tokens, cost and time per day and per session.
type Usage struct{}

// AddSpent adds usage to a day, in the format "2006-01-02", and to a session.
func (Usage) AddSpent(tx *db.Tx, day, sessionID string, v session.Spent) error {
	u := v.Usage
	args := func(key string) []any {
		out := []any{key}
		for _, n := range []int64{int64(v.Steps), u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.CostMicros, v.Time.Milliseconds()} {
			out = append(out, max(-chat.MaxCount, min(chat.MaxCount, n)))
		}
		return out
	}
	if _, err := tx.Exec(addDaily, args(day)...); err != nil {
		return wrap("count for the day", err)
	}
	_, err := tx.Exec(addSession, args(sessionID)...)
	return wrap("count for the session", err)
}

// AddCall stores what a call of a model without a request used, for a purpose of [session.Consumed]. That of a
// program has a client instead of a session.
func (Usage) AddCall(tx *db.Tx, purpose, sessionID, model string, used chat.Usage) error {
	raw, err := json.Marshal(used)
	if err != nil {
		return wrap("encode usage", err)
	}
	client := ""
	if purpose == session.PurposeProgram {
		client, sessionID = sessionID, ""
	}
	_, err = tx.Exec(`INSERT INTO usage_calls (at, purpose, session_id, client, model, usage) VALUES (?, ?, ?, COALESCE((SELECT client FROM sessions WHERE id = ?), ?), ?, ?)`,
		tx.Now().UnixMilli(), purpose, sessionID, sessionID, client, model, raw)
	return wrap("count call", err)
}

// TrimCalls deletes calls from before a time, at most trimBatch. Call it again while more is true.
func (Usage) TrimCalls(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimAll(tx, before, map[string]string{
		"calls of models": `DELETE FROM usage_calls WHERE id IN (SELECT id FROM usage_calls WHERE at < ? ORDER BY at LIMIT ?)`,
	})
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
