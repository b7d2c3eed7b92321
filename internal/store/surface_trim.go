package store

import (
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// surfaceAgeMigration records when the row of a platform message was last written, so that
// old messages can be trimmed. Existing rows start to age now.
var surfaceAgeMigration = db.Migration{Name: "surface.0002-age", SQL: `
ALTER TABLE surface_messages ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_messages SET at = unixepoch() * 1000;
CREATE INDEX surface_messages_at ON surface_messages (platform, at);
`}

// peopleAgeMigration records when a user was last seen and when a router state was last
// written, so that old rows can be trimmed. Existing rows start to age now. It deletes
// empty router states, which need no row.
var peopleAgeMigration = db.Migration{Name: "surface.0003-people", SQL: `
ALTER TABLE surface_users ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_users SET at = unixepoch() * 1000;
CREATE INDEX surface_users_at ON surface_users (platform, at);
ALTER TABLE router_state ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
DELETE FROM router_state WHERE json = CAST('{}' AS BLOB);
UPDATE router_state SET at = unixepoch() * 1000;
CREATE INDEX router_state_at ON router_state (at);
`, Postgres: `
ALTER TABLE surface_users ADD COLUMN at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX surface_users_at ON surface_users (platform, at);
ALTER TABLE router_state ADD COLUMN at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX router_state_at ON router_state (at);
`}

// sessionsAgeMigration records when the row of a platform session was last written, so that
// old sessions can be trimmed, and adds the key for the search by title. Existing rows
// start to age now.
var sessionsAgeMigration = db.Migration{Name: "surface.0004-sessions", SQL: `
ALTER TABLE surface_sessions ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE surface_sessions ADD COLUMN title_key TEXT NOT NULL DEFAULT '';
ALTER TABLE surface_sessions ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE surface_sessions SET at = unixepoch() * 1000, kind = coalesce(json ->> '$.kind', '');
CREATE INDEX surface_sessions_title ON surface_sessions (platform, title_key);
CREATE INDEX surface_sessions_at ON surface_sessions (platform, at) WHERE kind <> 'channel';
`, Then: nameSessions}

// nameSessions fills in the title keys of existing sessions. It does this in Go because the
// function lower of SQLite lowercases only ASCII.
func nameSessions(tx *db.Tx) error {
	type row struct{ platform, channelID, title string }
	rows, err := collect(tx, func(r scanner) (out row, err error) { return out, r.Scan(&out.platform, &out.channelID, &out.title) },
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

// TrimSessions deletes the threads of a platform whose rows were last written before a
// time. If the platform then has more than most sessions, it also deletes the threads and
// direct messages with the oldest rows. One call deletes at most trimBatch sessions for
// each of the two reasons. Call it again while more is true.
//
// TrimSessions never deletes:
//   - channels, because the platform reports when they are deleted;
//   - the sessions in keep;
//   - sessions with cached messages;
//   - sessions with an unfinished request, a burst, an unsent message, a waiting
//     workflow or a gap.
//
// The next message in a deleted thread inserts it again. In direct messages, the adapter
// can read messages that it missed while offline only if the session is still cached.
func (SurfaceSessions) TrimSessions(tx *db.Tx, platform string, before time.Time, most int, keep []string) (more bool, err error) {
	kept, err := json.Marshal(append([]string{}, keep...))
	if err != nil {
		return false, fmt.Errorf("encode what is kept: %w", err)
	}
	trim := func(where string, args ...any) (int, error) {
		res, err := tx.Exec(`DELETE FROM surface_sessions WHERE platform = ? AND channel_id IN (SELECT channel_id FROM surface_sessions s
			WHERE platform = ? AND kind <> 'channel' AND channel_id NOT IN (
				SELECT value FROM json_each(?)
				UNION ALL SELECT session_id FROM session_state WHERE unfinished = 1
				UNION ALL SELECT session_id FROM router_state WHERE burst = 1
				UNION ALL SELECT channel_id FROM outbox WHERE unfinished = 1
				UNION ALL SELECT session_id FROM workflows WHERE waiting = 1
				UNION ALL SELECT place FROM workflow_waits WHERE workflow_id IN (SELECT id FROM workflows WHERE waiting = 1) AND waiting = 1
				UNION ALL SELECT channel_id FROM discord_gaps)
			AND NOT EXISTS (SELECT 1 FROM surface_messages m WHERE m.platform = s.platform AND m.channel_id = s.channel_id)
			AND `+where+`)`, append([]any{platform, platform, string(kept)}, args...)...)
		if err != nil {
			return 0, fmt.Errorf("trim sessions: %w", err)
		}
		n, err := res.RowsAffected()
		return int(n), wrap("count trimmed sessions", err)
	}
	old, err := trim(`kind = 'thread' AND at < ? ORDER BY at, channel_id LIMIT ?`, before.UnixMilli(), trimBatch)
	if err != nil {
		return false, err
	}
	var count int
	if err := tx.QueryRow(`SELECT count(*) FROM surface_sessions WHERE platform = ?`, platform).Scan(&count); err != nil {
		return false, fmt.Errorf("count sessions: %w", err)
	}
	if count <= most {
		return old == trimBatch, nil
	}
	beyond, err := trim(`true ORDER BY at, channel_id LIMIT ?`, min(count-most, trimBatch))
	return old == trimBatch || beyond == trimBatch, err
}

// TrimMessages deletes the messages of a platform whose rows were last written before a
// time, and the oldest ones beyond most, with their index entries and references to blobs.
// One call deletes at most trimBatch messages. Call it again while more is true.
func (SurfaceMessages) TrimMessages(tx *db.Tx, platform string, before time.Time, most int) (more bool, err error) {
	var count int
	if err := tx.QueryRow(`SELECT count(*) FROM surface_messages WHERE platform = ?`, platform).Scan(&count); err != nil {
		return false, fmt.Errorf("count messages: %w", err)
	}
	type row struct {
		id int64
		m  surface.Message
	}
	old, err := collect(tx, func(r scanner) (out row, err error) {
		out.m.Platform = platform
		return out, r.Scan(&out.id, &out.m.ChannelID, &out.m.ID)
	}, `SELECT row, channel_id, id FROM (SELECT row, channel_id, id, at, row_number() OVER (ORDER BY at, row) AS n
			FROM surface_messages WHERE platform = ? ORDER BY at, row LIMIT ?) AS oldest WHERE at < ? OR n <= ?`, platform, trimBatch, before.UnixMilli(), count-most)
	if err != nil {
		return false, fmt.Errorf("list old messages: %w", err)
	}
	for _, r := range old {
		for _, statement := range []string{`DELETE FROM surface_words WHERE rowid = ?`, `DELETE FROM surface_messages WHERE row = ?`} {
			if _, err := tx.Exec(statement, r.id); err != nil {
				return false, fmt.Errorf("forget message %s: %w", r.m.ID, err)
			}
		}
		if err := deleteBlobRefs(tx, ownerMessage(r.m)); err != nil {
			return false, err
		}
	}
	return len(old) == trimBatch, nil
}

// TrimUsers deletes the users of a platform who were last seen before a time, and those
// seen longest ago beyond most. One call deletes at most trimBatch users. Call it again
// while more is true. The next message of a deleted user inserts the row again.
func (SurfaceUsers) TrimUsers(tx *db.Tx, platform string, before time.Time, most int) (more bool, err error) {
	var count int
	if err := tx.QueryRow(`SELECT count(*) FROM surface_users WHERE platform = ?`, platform).Scan(&count); err != nil {
		return false, fmt.Errorf("count people: %w", err)
	}
	res, err := tx.Exec(`DELETE FROM surface_users WHERE platform = ? AND id IN (SELECT id FROM (SELECT id, at, row_number() OVER (ORDER BY at, id) AS n
		FROM surface_users WHERE platform = ? ORDER BY at, id LIMIT ?) AS oldest WHERE at < ? OR n <= ?)`, platform, platform, trimBatch, before.UnixMilli(), count-most)
	if err != nil {
		return false, fmt.Errorf("trim people: %w", err)
	}
	n, err := res.RowsAffected()
	return n == trimBatch, wrap("count trimmed people", err)
}
