package store

import (
	"errors"
	"fmt"
	"time"

	"lilac/internal/engine/db"
)

var inboxMigration = db.Migration{Name: "inbox.0001-inbox", SQL: `
CREATE TABLE inbox (
	source      TEXT NOT NULL,
	external_id TEXT NOT NULL,
	value       BLOB,
	at          INTEGER NOT NULL,
	PRIMARY KEY (source, external_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_at ON inbox (at);
`}

// Inbox is the table of deliveries from outside. It makes them idempotent.
type Inbox struct{}

// Seen inserts a pair of source and external id with a value (JSON or nil). If the pair
// exists, nothing changes, seen is true, and prior is the value of the first delivery.
func (Inbox) Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error) {
	var at, checksum int64
	err = tx.QueryRow(`SELECT value, at, checksum FROM inbox WHERE source = ? AND external_id = ?`, source, externalID).
		Scan(&prior, &at, &checksum)
	switch {
	case err == nil && !matches(checksum, []any{source, externalID, prior, at}):
		return nil, false, inboxTable.damaged([]any{source, externalID})
	case err == nil:
		return prior, true, nil
	case !errors.Is(err, db.ErrNoRows):
		return nil, false, fmt.Errorf("read inbox: %w", err)
	}
	at = tx.Now().UnixMilli()
	_, err = tx.Exec(`INSERT INTO inbox (source, external_id, value, at, checksum) VALUES (?, ?, ?, ?, ?)`,
		source, externalID, value, at, rowChecksum(source, externalID, value, at))
	return nil, false, wrap("insert into inbox", err)
}

// Replace stores a value for a pair of source and external id, whether it exists or not.
func (Inbox) Replace(tx *db.Tx, source, externalID string, value []byte) error {
	at := tx.Now().UnixMilli()
	_, err := tx.Exec(`INSERT INTO inbox (source, external_id, value, at, checksum) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (source, external_id) DO UPDATE SET value = excluded.value, at = excluded.at, checksum = excluded.checksum`,
		source, externalID, value, at, rowChecksum(source, externalID, value, at))
	return wrap("replace in inbox", err)
}

// Forget deletes a pair of source and external id if it has this value.
func (Inbox) Forget(tx *db.Tx, source, externalID string, value []byte) error {
	_, err := tx.Exec(`DELETE FROM inbox WHERE source = ? AND external_id = ? AND value = ?`, source, externalID, value)
	return wrap("delete from inbox", err)
}

// TrimInbox deletes the deliveries and accepted messages from before a time. before
// must be older than the time within which a source may deliver again.
func (Inbox) TrimInbox(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimAll(tx, before, map[string]string{
		"accepted messages": `DELETE FROM session_accepted WHERE (session_id, message_id) IN
			(SELECT session_id, message_id FROM session_accepted WHERE at < ? ORDER BY at LIMIT ?)`,
		"inbox": `DELETE FROM inbox WHERE (source, external_id) IN
			(SELECT source, external_id FROM inbox WHERE at < ? ORDER BY at LIMIT ?)`,
	})
}
