package store

import (
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/engine/db"
)

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

// outboxChannelsMigration indexes the first unfinished row of each channel.
var outboxChannelsMigration = db.Migration{Name: "outbox.0002-channels", SQL: `
DROP INDEX outbox_unfinished;
CREATE INDEX outbox_unfinished ON outbox (platform, channel_id, seq) WHERE unfinished = 1;
`}

// Outbox is the table of messages to send to platforms.
type Outbox struct{}

var outboxRows = newDocuments[outbox.Row]("outbox", "key", "key", "platform", "channel_id", "message_id", "created_at", "unfinished")

// Plan implements [outbox.Table].
func (Outbox) Plan(tx *db.Tx, r outbox.Row) (fresh bool, err error) {
	fresh, err = outboxRows.add(tx, r.Key, r, r.Platform, r.Send.ChannelID, "", r.CreatedAt, 1)
	return fresh, wrap("plan outbox row", err)
}

// Save implements [outbox.Table].
func (Outbox) Save(tx *db.Tx, r outbox.Row) error {
	data, checksum, err := outboxRows.encode(r.Key, r)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE outbox SET message_id = ?, unfinished = ?, json = ?, checksum = ? WHERE key = ?`,
		r.MessageID, !r.State.Final(), data, checksum, r.Key)
	return wrap("save outbox row", err)
}

// Row implements [outbox.Table].
func (Outbox) Row(q db.Queryer, key string) (outbox.Row, error) {
	r, err := outboxRows.one(q, `key = ?`, key)
	return r, wrap("read outbox row", notFound(err, "Nothing was planned under %s.", key))
}

// Unfinished implements [outbox.Table].
func (Outbox) Unfinished(q db.Queryer, platform string, limit int) ([]outbox.Row, error) {
	var damaged []string // channels whose first row is damaged
	out, err := collectReadable(q, func(r scanner) (row outbox.Row, err error) {
		var channel, key string
		var data []byte
		var checksum int64
		if err := r.Scan(&channel, &key, &data, &checksum); err != nil {
			return row, err
		}
		if err = outboxRows.decode(key, data, checksum, &row); db.IsDamaged(err) {
			damaged = append(damaged, channel)
		}
		return row, err
	}, `SELECT channel_id, key, json, checksum FROM outbox WHERE seq IN (SELECT min(seq) FROM outbox
		WHERE unfinished = 1 AND platform = ? GROUP BY channel_id ORDER BY min(seq) LIMIT ?) ORDER BY seq`, platform, limit)
	if err != nil {
		return nil, fmt.Errorf("list outbox: %w", err)
	}
	for _, channel := range damaged { // the next row of the channel is sent instead
		rows, err := outboxRows.readable(q, `WHERE unfinished = 1 AND platform = ? AND channel_id = ? ORDER BY seq`, platform, channel)
		if err != nil {
			return nil, fmt.Errorf("list outbox of a channel: %w", err)
		}
		out = append(out, rows[:min(len(rows), 1)]...)
	}
	return out, nil
}

// ByMessage implements [outbox.Table].
func (Outbox) ByMessage(q db.Queryer, platform, channelID, messageID string) (outbox.Row, error) {
	r, err := outboxRows.one(q, `platform = ? AND channel_id = ? AND message_id = ? AND message_id <> ''`, platform, channelID, messageID)
	return r, wrap("read outbox row", notFound(err, "The message %s was not sent by this bot.", messageID))
}

// Trim implements [outbox.Table].
func (Outbox) Trim(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "outbox", `DELETE FROM outbox WHERE key IN (SELECT key FROM outbox WHERE unfinished = 0 AND created_at < ? ORDER BY created_at LIMIT ?)`, before)
}
