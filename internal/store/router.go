package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/core/router"
	"lilac/internal/engine/db"
)

// routerMigration keeps what the router knows of each session, and which
// messages the session's history holds.
var routerMigration = db.Migration{Name: "router.0001-router", SQL: `
CREATE TABLE router_state (
	platform   TEXT NOT NULL,
	session_id TEXT NOT NULL,
	burst      INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (platform, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX router_state_burst ON router_state (platform) WHERE burst = 1;

CREATE TABLE router_forwarded (
	platform   TEXT NOT NULL,
	session_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	PRIMARY KEY (platform, session_id, message_id)
) STRICT, WITHOUT ROWID;
`}

// RouterStates is the table of the router's state of each session.
type RouterStates struct{}

// RouterState implements [router.Table].
func (RouterStates) RouterState(q db.Queryer, platform, sessionID string) (state router.State, err error) {
	var data []byte
	var checksum int64
	err = q.QueryRow(`SELECT json, checksum FROM router_state WHERE platform = ? AND session_id = ?`, platform, sessionID).Scan(&data, &checksum)
	if errors.Is(err, db.ErrNoRows) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("read router state: %w", err)
	}
	return state, decode("router_state", sessionID, data, checksum, &state)
}

// SaveRouterState implements [router.Table].
func (RouterStates) SaveRouterState(tx *db.Tx, platform, sessionID string, state router.State) error {
	if state.Empty() {
		_, err := tx.Exec(`DELETE FROM router_state WHERE platform = ? AND session_id = ?`, platform, sessionID)
		return wrap("forget router state", err)
	}
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode router state: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO router_state (platform, session_id, burst, json, checksum, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET burst = excluded.burst, json = excluded.json, checksum = excluded.checksum, at = excluded.at`,
		platform, sessionID, state.Due > 0 || len(state.Gating) > 0, data, sum(sessionID, data), tx.Now().UnixMilli())
	return wrap("save router state", err)
}

// RouterBursts implements [router.Table].
func (RouterStates) RouterBursts(q db.Queryer, platform string) (map[string]router.State, error) {
	out := map[string]router.State{}
	_, err := sound(q, func(r scanner) (struct{}, error) {
		var session string
		var data []byte
		var checksum int64
		if err := r.Scan(&session, &data, &checksum); err != nil {
			return struct{}{}, err
		}
		var state router.State
		if err := decode("router_state", session, data, checksum, &state); err != nil {
			return struct{}{}, err
		}
		out[session] = state
		return struct{}{}, nil
	}, `SELECT session_id, json, checksum FROM router_state WHERE platform = ? AND burst = 1`, platform)
	return out, wrap("list bursts", err)
}

// ForwardedMessages is the table of platform messages that a session's history holds.
type ForwardedMessages struct{}

// MarkForwarded implements [router.Table].
func (ForwardedMessages) MarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error {
	for _, id := range messageIDs {
		if _, err := tx.Exec(`INSERT INTO router_forwarded (platform, session_id, message_id, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			platform, sessionID, id, tx.Now().UnixMilli()); err != nil {
			return fmt.Errorf("mark forwarded: %w", err)
		}
	}
	return nil
}

// UnmarkForwarded implements [router.Table].
func (ForwardedMessages) UnmarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error {
	for _, id := range messageIDs {
		if _, err := tx.Exec(`DELETE FROM router_forwarded WHERE platform = ? AND session_id = ? AND message_id = ?`, platform, sessionID, id); err != nil {
			return fmt.Errorf("unmark forwarded: %w", err)
		}
	}
	return nil
}

// Ran implements [router.Table].
func (Requests) Ran(q db.Queryer, sessionID, requestID string) (ran bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM requests WHERE id = ? AND session_id = ?)`, requestID, sessionID).Scan(&ran)
	return ran, wrap("read request", err)
}

// Forwarded implements [router.Table].
func (ForwardedMessages) Forwarded(q db.Queryer, platform, sessionID, messageID string) (there bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM router_forwarded WHERE platform = ? AND session_id = ? AND message_id = ?)`, platform, sessionID, messageID).Scan(&there)
	return there, wrap("read forwarded", err)
}
