package store

import (
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// acceptedMigration keeps which prompts the runner has not taken yet.
var acceptedMigration = db.Migration{Name: "store.0008-accepted", SQL: `
CREATE TABLE session_accepted (
	session_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (session_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_accepted_at ON session_accepted (at);
`}

// heldFor is for how long a prompt that is not taken keeps its session: what could
// not be handled for so long is a dead letter, or waits for a log that is away.
const heldFor = time.Hour

// Accept notes that a session is promised a message: until the runner takes it, the
// session is not deleted.
func (Mailbox) Accept(tx *db.Tx, sessionID, messageID string) error {
	_, err := tx.Exec(`INSERT INTO session_accepted (session_id, message_id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		sessionID, messageID, tx.Now().UnixMilli())
	return wrap("note an accepted message", err)
}

// ClaimAccepted notes that the runner has a message, and reports whether it was promised to
// the session by Accept.
func (Mailbox) ClaimAccepted(tx *db.Tx, sessionID, messageID string) (promised bool, err error) {
	res, err := tx.Exec(`DELETE FROM session_accepted WHERE session_id = ? AND message_id = ?`, sessionID, messageID)
	if err != nil {
		return false, fmt.Errorf("take an accepted message: %w", err)
	}
	n, err := res.RowsAffected()
	return n > 0, wrap("count accepted messages", err)
}

// refuseIfPromised refuses to delete a session that a message is on the way to. What stays
// noted of an older one keeps that from making the session anew.
func refuseIfPromised(tx *db.Tx, id string) error {
	var held bool
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM session_accepted WHERE session_id = ? AND at > ?)`,
		id, tx.Now().Add(-heldFor).UnixMilli()).Scan(&held)
	if err != nil {
		return fmt.Errorf("read accepted messages: %w", err)
	}
	if held {
		return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "A message to this conversation was accepted and is not at work yet. Try again in a moment."}
	}
	return nil
}
