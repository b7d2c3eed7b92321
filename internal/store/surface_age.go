package store

import (
	"database/sql"
	"fmt"
	"time"

	"lilac/internal/db"
	"lilac/internal/surface"
)

// surfaceAgeMigration notes when a message of a platform was written last, so
// that it can be forgotten. What is there already begins to age now.
var surfaceAgeMigration = db.Migration{Name: "surface.0002-age", SQL: `
ALTER TABLE surface_messages ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_messages SET at = unixepoch() * 1000;
CREATE INDEX surface_messages_at ON surface_messages (platform, at);
`}

// peopleAgeMigration notes when somebody was seen last and when the router
// learned something of a session. What is there already begins to age now.
// Sessions of which the router knows nothing need no row.
var peopleAgeMigration = db.Migration{Name: "surface.0003-people", SQL: `
ALTER TABLE surface_users ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_users SET at = unixepoch() * 1000;
CREATE INDEX surface_users_at ON surface_users (platform, at);
ALTER TABLE router_state ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
DELETE FROM router_state WHERE json = CAST('{}' AS BLOB);
UPDATE router_state SET at = unixepoch() * 1000;
CREATE INDEX router_state_at ON router_state (at);
`}

// sessionsAgeMigration notes when a session of a platform was written last, so
// that it can be forgotten, and by which title it is found. What is there
// already begins to age now.
var sessionsAgeMigration = db.Migration{Name: "surface.0004-sessions", SQL: `
ALTER TABLE surface_sessions ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE surface_sessions ADD COLUMN title_key TEXT NOT NULL DEFAULT '';
ALTER TABLE surface_sessions ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_sessions SET at = unixepoch() * 1000, kind = coalesce(json ->> '$.kind', '');
CREATE INDEX surface_sessions_title ON surface_sessions (platform, title_key);
CREATE INDEX surface_sessions_at ON surface_sessions (platform, at) WHERE kind <> 'channel';
`, Then: nameSessions}

// nameSessions writes by which titles sessions are found; SQL knows the small
// letters of one alphabet only.
func nameSessions(tx *db.Tx) error {
	type row struct{ platform, channelID, title string }
	rows, err := collect(tx, func(r *sql.Rows) (out row, err error) { return out, r.Scan(&out.platform, &out.channelID, &out.title) },
		`SELECT platform, channel_id, json ->> '$.title' FROM surface_sessions WHERE coalesce(json ->> '$.title', '') <> ''`)
	if err != nil {
		return fmt.Errorf("list the titles of sessions: %w", err)
	}
	for _, r := range rows {
		if _, err := tx.Exec(`UPDATE surface_sessions SET title_key = ? WHERE platform = ? AND channel_id = ?`, titleKey(r.title), r.platform, r.channelID); err != nil {
			return fmt.Errorf("name session %s: %w", r.channelID, err)
		}
	}
	return nil
}

// TrimMessages forgets messages of a platform that were written before a time,
// and the oldest ones beyond a number, with their words and what they refer to;
// a bounded number at once. Call it again while more is true.
func (SurfaceCache) TrimMessages(tx *db.Tx, platform string, before time.Time, most int) (more bool, err error) {
	var count int
	if err := tx.QueryRow(`SELECT count(*) FROM surface_messages WHERE platform = ?`, platform).Scan(&count); err != nil {
		return false, fmt.Errorf("count messages: %w", err)
	}
	type row struct {
		id int64
		m  surface.Message
	}
	old, err := collect(tx, func(r *sql.Rows) (out row, err error) {
		out.m.Platform = platform
		return out, r.Scan(&out.id, &out.m.ChannelID, &out.m.ID)
	}, `SELECT row, channel_id, id FROM (SELECT row, channel_id, id, at, row_number() OVER (ORDER BY at, row) AS n
			FROM surface_messages WHERE platform = ? ORDER BY at, row LIMIT ?) WHERE at < ? OR n <= ?`, platform, ageBatch, before.UnixMilli(), count-most)
	if err != nil {
		return false, fmt.Errorf("list old messages: %w", err)
	}
	for _, r := range old {
		for _, statement := range []string{`DELETE FROM surface_words WHERE rowid = ?`, `DELETE FROM surface_messages WHERE row = ?`} {
			if _, err := tx.Exec(statement, r.id); err != nil {
				return false, fmt.Errorf("forget message %s: %w", r.m.ID, err)
			}
		}
		if err := forgetOwner(tx, ownerMessage(r.m)); err != nil {
			return false, err
		}
	}
	return len(old) == ageBatch, nil
}

// TrimUsers forgets people of a platform who were seen last before a time, and
// those seen longest ago beyond a number; a bounded number at once. Call it
// again while more is true. Who is forgotten is met again with the next message.
func (SurfaceCache) TrimUsers(tx *db.Tx, platform string, before time.Time, most int) (more bool, err error) {
	var count int
	if err := tx.QueryRow(`SELECT count(*) FROM surface_users WHERE platform = ?`, platform).Scan(&count); err != nil {
		return false, fmt.Errorf("count people: %w", err)
	}
	res, err := tx.Exec(`DELETE FROM surface_users WHERE platform = ? AND id IN (SELECT id FROM (SELECT id, at, row_number() OVER (ORDER BY at, id) AS n
		FROM surface_users WHERE platform = ? ORDER BY at, id LIMIT ?) WHERE at < ? OR n <= ?)`, platform, platform, ageBatch, before.UnixMilli(), count-most)
	if err != nil {
		return false, fmt.Errorf("trim people: %w", err)
	}
	n, err := res.RowsAffected()
	return n == ageBatch, wrap("count trimmed people", err)
}
