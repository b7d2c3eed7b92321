package store

import (
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/engine/db"
)

// outboxMigration keeps what goes out to the world; what it is, is JSON.
var outboxMigration = db.Migration{Name: "outbox.0001-outbox", SQL: `
CREATE TABLE outbox (
	seq        INTEGER PRIMARY KEY AUTOINCREMENT,
	key        TEXT NOT NULL UNIQUE,
	platform   TEXT NOT NULL,
	channel_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	unfinished INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_unfinished ON outbox (platform, seq) WHERE unfinished = 1;
CREATE INDEX outbox_message ON outbox (platform, channel_id, message_id) WHERE message_id <> '';
CREATE INDEX outbox_created ON outbox (created_at);
`}

// outboxChannelsMigration finds the first unfinished row of each channel.
var outboxChannelsMigration = db.Migration{Name: "outbox.0002-channels", SQL: `
DROP INDEX outbox_unfinished;
CREATE INDEX outbox_unfinished ON outbox (platform, channel_id, seq) WHERE unfinished = 1;
`}

// outboxTrimBatch bounds how long one cleanup holds the writer.
const outboxTrimBatch = 1000

// Outbox is the table of what goes out. It has no state of its own.
type Outbox struct{}

var _ outbox.Table = Outbox{}

// Plan implements [outbox.Table].
func (Outbox) Plan(tx *db.Tx, r outbox.Row) (fresh bool, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("encode outbox row %s: %w", r.Key, err)
	}
	res, err := tx.Exec(`INSERT INTO outbox (key, platform, channel_id, message_id, created_at, unfinished, json, checksum)
		VALUES (?, ?, ?, '', ?, 1, ?, ?) ON CONFLICT DO NOTHING`,
		r.Key, r.Platform, r.Send.ChannelID, r.CreatedAt, data, sum(r.Key, data))
	if err != nil {
		return false, fmt.Errorf("plan outbox row: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, wrap("count planned rows", err)
}

// Save implements [outbox.Table].
func (Outbox) Save(tx *db.Tx, r outbox.Row) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode outbox row %s: %w", r.Key, err)
	}
	_, err = tx.Exec(`UPDATE outbox SET message_id = ?, unfinished = ?, json = ?, checksum = ? WHERE key = ?`,
		r.MessageID, !r.State.Final(), data, sum(r.Key, data), r.Key)
	return wrap("save outbox row", err)
}

func scanOutbox(r scanner) (row outbox.Row, err error) {
	var key string
	var data []byte
	var checksum int64
	if err := r.Scan(&key, &data, &checksum); err != nil {
		return row, err
	}
	return row, decode("outbox", key, data, checksum, &row)
}

// Row implements [outbox.Table].
func (Outbox) Row(q db.Queryer, key string) (outbox.Row, error) {
	r, err := scanOutbox(q.QueryRow(`SELECT key, json, checksum FROM outbox WHERE key = ?`, key))
	return r, wrap("read outbox row", notFound(err, "Nothing was planned under %s.", key))
}

// Unfinished implements [outbox.Table].
func (Outbox) Unfinished(q db.Queryer, platform string, limit int) ([]outbox.Row, error) {
	var damaged []string
	out, err := sound(q, func(r scanner) (row outbox.Row, err error) {
		var channel, key string
		var data []byte
		var checksum int64
		if err := r.Scan(&channel, &key, &data, &checksum); err != nil {
			return row, err
		}
		if err = decode("outbox", key, data, checksum, &row); db.IsDamaged(err) {
			damaged = append(damaged, channel)
		}
		return row, err
	}, `SELECT channel_id, key, json, checksum FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox
		WHERE unfinished = 1 AND platform = ? GROUP BY channel_id ORDER BY min(seq) LIMIT ?) ORDER BY seq`, platform, limit)
	if err != nil {
		return nil, fmt.Errorf("list the outbox: %w", err)
	}
	for _, channel := range damaged { // the first of those behind has its turn
		rows, err := sound(q, scanOutbox, `SELECT key, json, checksum FROM outbox
			WHERE unfinished = 1 AND platform = ? AND channel_id = ? ORDER BY seq`, platform, channel)
		if err != nil {
			return nil, fmt.Errorf("list a channel of the outbox: %w", err)
		}
		out = append(out, rows[:min(len(rows), 1)]...)
	}
	return out, nil
}

// ByMessage implements [outbox.Table].
func (Outbox) ByMessage(q db.Queryer, platform, channelID, messageID string) (outbox.Row, error) {
	r, err := scanOutbox(q.QueryRow(`SELECT key, json, checksum FROM outbox WHERE platform = ? AND channel_id = ? AND message_id = ? AND message_id <> ''`,
		platform, channelID, messageID))
	return r, wrap("read outbox row", notFound(err, "Nothing of ours made the message %s.", messageID))
}

// Trim implements [outbox.Table].
func (Outbox) Trim(tx *db.Tx, before time.Time) (more bool, err error) {
	res, err := tx.Exec(`DELETE FROM outbox WHERE key IN (SELECT key FROM outbox WHERE unfinished = 0 AND created_at < ? ORDER BY created_at LIMIT ?)`,
		before.UnixMilli(), outboxTrimBatch)
	if err != nil {
		return false, fmt.Errorf("trim the outbox: %w", err)
	}
	n, err := res.RowsAffected()
	return n == outboxTrimBatch, wrap("count trimmed outbox rows", err)
}
