package store

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// operatorsMigration creates the tables of operator tokens, which are stored as hashes, and
// of the calls that used them.
var operatorsMigration = db.Migration{Name: "toolserver.0001-operators", SQL: `
CREATE TABLE tool_operators (
	name       TEXT PRIMARY KEY,
	hash       BLOB NOT NULL UNIQUE,
	callables  TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	used_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE tool_calls (
	row        INTEGER PRIMARY KEY,
	at         INTEGER NOT NULL,
	operator   TEXT NOT NULL,
	callable   TEXT NOT NULL,
	session_id TEXT NOT NULL,
	outcome    TEXT NOT NULL,
	detail     TEXT NOT NULL,
	took_ms    INTEGER NOT NULL
) STRICT;
`}

// operatorsExpireMigration adds an expiry to tokens. Existing tokens are valid until they
// are revoked.
var operatorsExpireMigration = db.Migration{Name: "toolserver.0002-expiry", SQL: `
ALTER TABLE tool_operators ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0;
`}

// operatorCallsTrimBatch is the maximum number of calls that one TrimCalls deletes, so that
// it holds the writer only briefly.
const operatorCallsTrimBatch = 1000

// OperatorTokens groups the tables of operator tokens and of the calls that used them.
type OperatorTokens struct{}

// AddOperator implements [toolserver.OperatorTable].
func (OperatorTokens) AddOperator(tx *db.Tx, t toolserver.OperatorToken, hash []byte) error {
	callables, err := json.Marshal(t.Callables)
	if err != nil {
		return fmt.Errorf("encode callables: %w", err)
	}
	res, err := tx.Exec(`INSERT INTO tool_operators (name, hash, callables, created_at, used_at, expires_at) VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING`,
		t.Name, hash, string(callables), t.CreatedAt, t.ExpiresAt)
	if err != nil {
		return fmt.Errorf("add token: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return fault.Wrap(fault.Conflict, err, "There is a token %q already: revoke it first, or choose another name.", t.Name)
	}
	return nil
}

const operatorColumns = `name, callables, created_at, used_at, expires_at`

func scanOperator(row scanner) (t toolserver.OperatorToken, err error) {
	var callables string
	if err := row.Scan(&t.Name, &callables, &t.CreatedAt, &t.UsedAt, &t.ExpiresAt); err != nil {
		return t, err
	}
	return t, json.Unmarshal([]byte(callables), &t.Callables)
}

// Operators implements [toolserver.OperatorTable].
func (OperatorTokens) Operators(q db.Queryer) ([]toolserver.OperatorToken, error) {
	out, err := collect(q, scanOperator,
		`SELECT `+operatorColumns+` FROM tool_operators ORDER BY name`)
	return out, wrap("list tokens", err)
}

// Operator implements [toolserver.OperatorTable].
func (OperatorTokens) Operator(q db.Queryer, hash []byte) (toolserver.OperatorToken, error) {
	t, err := scanOperator(q.QueryRow(`SELECT `+operatorColumns+` FROM tool_operators WHERE hash = ?`, hash))
	return t, wrap("read token", notFound(err, "There is no such token."))
}

// DropOperator implements [toolserver.OperatorTable].
func (OperatorTokens) DropOperator(tx *db.Tx, name string) error {
	res, err := tx.Exec(`DELETE FROM tool_operators WHERE name = ?`, name)
	if err != nil {
		return fmt.Errorf("drop token: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return fault.Wrap(fault.NotFound, err, "There is no token %q.", name)
	}
	return nil
}

// AddOperatorCall implements [toolserver.OperatorTable].
func (OperatorTokens) AddOperatorCall(tx *db.Tx, c toolserver.OperatorCall) error {
	_, err := tx.Exec(`INSERT INTO tool_calls (at, operator, callable, session_id, outcome, detail, took_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		c.At, c.Operator, c.Callable, c.SessionID, c.Outcome, c.Detail, c.TookMS)
	if err != nil {
		return fmt.Errorf("add call: %w", err)
	}
	_, err = tx.Exec(`UPDATE tool_operators SET used_at = ? WHERE name = ?`, c.At, c.Operator)
	return wrap("note use of token", err)
}

// OperatorCalls implements [toolserver.OperatorTable].
func (OperatorTokens) OperatorCalls(q db.Queryer, limit int, before int64) ([]toolserver.OperatorCall, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	out, err := collect(q, func(r scanner) (c toolserver.OperatorCall, err error) {
		return c, r.Scan(&c.ID, &c.At, &c.Operator, &c.Callable, &c.SessionID, &c.Outcome, &c.Detail, &c.TookMS)
	}, `SELECT row, at, operator, callable, session_id, outcome, detail, took_ms FROM tool_calls WHERE row < ? ORDER BY row DESC LIMIT ?`, before, pageSize(limit))
	return out, wrap("list calls", err)
}

// TrimCalls deletes calls from before a time, at most operatorCallsTrimBatch. Call it again
// while more is true.
func (OperatorTokens) TrimCalls(tx *db.Tx, before time.Time) (more bool, err error) {
	res, err := tx.Exec(`DELETE FROM tool_calls WHERE row IN (SELECT row FROM tool_calls WHERE at < ? ORDER BY at LIMIT ?)`, before.UnixMilli(), operatorCallsTrimBatch)
	if err != nil {
		return false, fmt.Errorf("trim calls: %w", err)
	}
	n, err := res.RowsAffected()
	return n == operatorCallsTrimBatch, wrap("count trimmed calls", err)
}
