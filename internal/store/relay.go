package store

import (
	"encoding/json"
	"fmt"

	"lilac/internal/core/relay"
	"lilac/internal/engine/db"
)

// relayMigration keeps what shows the output of each request.
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

// Relays is the table of relays: which messages show the output of a request.
type Relays struct{}

// Relay implements [relay.Table].
func (Relays) Relay(q db.Queryer, platform, requestID string) (r relay.Row, err error) {
	var data []byte
	var checksum int64
	err = q.QueryRow(`SELECT json, checksum FROM relays WHERE platform = ? AND request_id = ?`, platform, requestID).Scan(&data, &checksum)
	if err != nil {
		return r, wrap("read relay", notFound(err, "The request %s is not shown on %s.", requestID, platform))
	}
	return r, decode("relays", requestID, data, checksum, &r)
}

// SaveRelay implements [relay.Table].
func (Relays) SaveRelay(tx *db.Tx, r relay.Row) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode relay %s: %w", r.RequestID, err)
	}
	_, err = tx.Exec(`INSERT INTO relays (platform, request_id, live, changed_at, json, checksum) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET live = excluded.live, changed_at = excluded.changed_at, json = excluded.json, checksum = excluded.checksum`,
		r.Platform, r.RequestID, r.Started && !r.Finished, tx.Now().UnixMilli(), data, sum(r.RequestID, data))
	return wrap("save relay", err)
}

// LiveRelays implements [relay.Table].
func (Relays) LiveRelays(q db.Queryer, platform string) ([]string, error) {
	out, err := collect(q, scanID,
		`SELECT request_id FROM relays WHERE platform = ? AND live = 1 ORDER BY request_id`, platform)
	return out, wrap("list relays", err)
}
