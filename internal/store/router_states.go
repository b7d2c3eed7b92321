package store

import (
	"fmt"
	"time"

	"lilac/internal/core/router"
	"lilac/internal/engine/db"
)

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

var routerStateRows = newDocuments[router.State]("router_state", "session_id", "platform, session_id", "platform", "burst", "at")

// RouterState implements [router.Table].
func (RouterStates) RouterState(q db.Queryer, platform, sessionID string) (router.State, error) {
	state, err := routerStateRows.oneOrZero(q, `platform = ? AND session_id = ?`, platform, sessionID)
	return state, wrap("read router state", err)
}

// SaveRouterState implements [router.Table].
func (RouterStates) SaveRouterState(tx *db.Tx, platform, sessionID string, state router.State) error {
	if state.Empty() {
		_, err := tx.Exec(`DELETE FROM router_state WHERE platform = ? AND session_id = ?`, platform, sessionID)
		return wrap("delete router state", err)
	}
	burst := state.Due > 0 || len(state.Gating) > 0
	return wrap("save router state", routerStateRows.put(tx, sessionID, state, platform, burst, tx.Now().UnixMilli()))
}

// RouterBursts implements [router.Table].
func (RouterStates) RouterBursts(q db.Queryer, platform string) (map[string]router.State, error) {
	out := map[string]router.State{}
	_, err := collectReadable(q, func(r scanner) (none struct{}, err error) {
		var session string
		var data []byte
		var checksum int64
		if err := r.Scan(&session, &data, &checksum); err != nil {
			return none, err
		}
		var state router.State
		if err := routerStateRows.decode(session, data, checksum, &state); err != nil {
			return none, err
		}
		out[session] = state
		return none, nil
	}, `SELECT session_id, json, checksum FROM router_state WHERE platform = ? AND burst = 1`, platform)
	return out, wrap("list bursts", err)
}

// TrimRouterStates deletes the states of sessions in which nothing has happened since a
// time and no burst or request waits. The next message of such a session starts with an
// empty state.
func (RouterStates) TrimRouterStates(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "router states", `DELETE FROM router_state WHERE (platform, session_id) IN (
		SELECT platform, session_id FROM router_state WHERE burst = 0 AND at < ?
			AND NOT EXISTS (SELECT 1 FROM requests r WHERE r.session_id = router_state.session_id AND r.state NOT IN ('done', 'failed', 'cancelled'))
		ORDER BY at LIMIT ?)`, before)
}

// ForwardedMessages is the table of platform messages that the history of a session
// contains.
type ForwardedMessages struct{}

// MarkForwarded implements [router.Table].
func (ForwardedMessages) MarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error {
	for _, id := range messageIDs {
		if _, err := tx.Exec(`INSERT INTO router_forwarded (platform, session_id, message_id, at) VALUES (?, ?, ?, ?)
			ON CONFLICT (platform, session_id, message_id) DO UPDATE SET at = excluded.at`,
			platform, sessionID, id, tx.Now().UnixMilli()); err != nil {
			return fmt.Errorf("mark message as forwarded: %w", err)
		}
	}
	return nil
}

// UnmarkForwarded implements [router.Table].
func (ForwardedMessages) UnmarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error {
	for _, id := range messageIDs {
		if _, err := tx.Exec(`DELETE FROM router_forwarded WHERE platform = ? AND session_id = ? AND message_id = ?`, platform, sessionID, id); err != nil {
			return fmt.Errorf("unmark forwarded message: %w", err)
		}
	}
	return nil
}

// Forwarded implements [router.Table].
func (ForwardedMessages) Forwarded(q db.Queryer, platform, sessionID, messageID string) (bool, error) {
	return exists(q, `SELECT 1 FROM router_forwarded WHERE platform = ? AND session_id = ? AND message_id = ?`, platform, sessionID, messageID)
}

// Remembered implements [router.Table].
func (ForwardedMessages) Remembered(q db.Queryer, platform, sessionID, messageID string) (bool, error) {
	return exists(q, `SELECT 1 FROM router_forwarded WHERE platform = ? AND session_id = ? AND message_id = ? AND at >= `+conversationStart,
		platform, sessionID, messageID, sessionID)
}

// TrimForwarded deletes the marks of messages that were forwarded before a time. A reply
// to such a message quotes it to the model again.
func (ForwardedMessages) TrimForwarded(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "forwarded messages", `DELETE FROM router_forwarded WHERE (platform, session_id, message_id) IN (
		SELECT platform, session_id, message_id FROM router_forwarded WHERE at < ? ORDER BY at LIMIT ?)`, before)
}
