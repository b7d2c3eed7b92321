package store

import (
	"time"

	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
)

var relayMigration = db.Migration{Name: "relay.0001-relays", SQL: `
CREATE TABLE relays (
	platform   TEXT NOT NULL,
	request_id TEXT NOT NULL,
	live       INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (platform, request_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX relays_live ON relays (platform, request_id) WHERE live = 1;
`}

// Relays is the table of relays: the messages that show the output of a request.
type Relays struct{}

var relayRows = newDocuments[relay.Row]("relays", "request_id", "platform, request_id", "platform", "live", "changed_at")

// Relay implements [relay.Table].
func (Relays) Relay(q db.Queryer, platform, requestID string) (relay.Row, error) {
	r, err := relayRows.one(q, `platform = ? AND request_id = ?`, platform, requestID)
	return r, wrap("read relay", notFound(err, "The request %s is not shown on %s.", requestID, platform))
}

// SaveRelay implements [relay.Table].
func (Relays) SaveRelay(tx *db.Tx, r relay.Row) error {
	return wrap("save relay", relayRows.put(tx, r.RequestID, r, r.Platform, r.Started && !r.Finished, tx.Now().UnixMilli()))
}

// LiveRelays implements [relay.Table].
func (Relays) LiveRelays(q db.Queryer, platform string) ([]string, error) {
	out, err := collect(q, scanID, `SELECT request_id FROM relays WHERE platform = ? AND live = 1 ORDER BY request_id`, platform)
	return out, wrap("list relays", err)
}

// TrimRelays deletes relays that have not changed since a time, except those that show
// output or whose request has not ended. before must be older than the retention of
// the bus.
func (Relays) TrimRelays(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "relays", `DELETE FROM relays WHERE (platform, request_id) IN (
		SELECT platform, request_id FROM relays WHERE live = 0 AND changed_at < ?
			AND NOT EXISTS (SELECT 1 FROM requests WHERE id = request_id AND state NOT IN ('done', 'failed', 'cancelled'))
		ORDER BY changed_at LIMIT ?)`, before)
}
