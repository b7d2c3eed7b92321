package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// surfaceMigration creates the cache of messages, channels and users of platforms. The order
// of ids is by length, then by text, because the ids of Discord (snowflakes) are increasing
// decimal numbers without leading zeros.
var surfaceMigration = db.Migration{Name: "surface.0001-cache", SQL: surfaceMessagesTable + `
CREATE VIRTUAL TABLE surface_words USING fts5 (said, content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 2");
` + surfaceOtherTables, Postgres: db.PostgresTables(surfaceMessagesTable+surfaceOtherTables) + `
CREATE TABLE surface_words (rowid BIGINT PRIMARY KEY, said tsvector NOT NULL);
CREATE INDEX surface_words_said ON surface_words USING gin (said);
`}

const (
	surfaceMessagesTable = `
CREATE TABLE surface_messages (
	row        INTEGER PRIMARY KEY,
	platform   TEXT NOT NULL,
	channel_id TEXT NOT NULL,
	id         TEXT NOT NULL,
	reply_to   TEXT NOT NULL,
	edited_at  INTEGER NOT NULL,
	deleted_at INTEGER NOT NULL,
	json       BLOB NOT NULL,
	UNIQUE (platform, channel_id, id)
) STRICT;
CREATE INDEX surface_messages_order ON surface_messages (platform, channel_id, length(id), id);
`
	surfaceOtherTables = `
CREATE TABLE surface_sessions (
	platform   TEXT NOT NULL,
	channel_id TEXT NOT NULL,
	updated_at INTEGER NOT NULL,
	json       BLOB NOT NULL,
	PRIMARY KEY (platform, channel_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE surface_users (
	platform TEXT NOT NULL,
	id       TEXT NOT NULL,
	name     TEXT NOT NULL,
	name_key TEXT NOT NULL,
	bot      INTEGER NOT NULL,
	PRIMARY KEY (platform, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX surface_users_name ON surface_users (platform, name_key);
`
)

const (
	// maxChain is the maximum length of a reply chain.
	maxChain = 100
	// maxListed is the maximum number of channels in a list, the most recently
	// updated first, and the maximum number of channels that one search covers.
	maxListed = 5000
	// maxTitled is the maximum number of sessions with one title to return.
	maxTitled = 50
	// userSeenEvery is the minimum time between two updates of the time at which a
	// user was last seen.
	userSeenEvery = 24 * time.Hour
)

// SurfaceCache groups the tables that cache data of platforms.
type SurfaceCache struct {
	SurfaceMessages
	SurfaceSessions
	SurfaceUsers
}

type (
	// SurfaceMessages is the cache of messages and their full-text index.
	SurfaceMessages struct{}
	// SurfaceSessions is the cache of channels, threads and direct messages.
	SurfaceSessions struct{}
	// SurfaceUsers is the cache of the names of users.
	SurfaceUsers struct{}
)

// PutMessage implements [surface.MessageCache].
func (SurfaceMessages) PutMessage(tx *db.Tx, m surface.Message) error {
	if m.Platform == "" || m.ChannelID == "" || m.ID == "" {
		return fault.New(fault.Invalid, "A message needs a platform, a channel and an id.")
	}
	old, err := SurfaceMessages{}.any(tx, m.Platform, m.ChannelID, m.ID)
	switch {
	case err == nil && (old.DeletedAt > 0 || m.EditedAt < old.EditedAt):
		return nil
	case err == nil:
		if m.RequestID == "" {
			m.RequestID = old.RequestID
		}
		if m.AuthorRoles == nil { // an edit may not have them
			m.AuthorRoles = old.AuthorRoles
		}
		// Keep the blobs of attachments that were downloaded at ingest: later
		// versions of the message do not contain them.
		for i, a := range m.Attachments {
			if j := slices.IndexFunc(old.Attachments, func(o surface.Attachment) bool { return o.ID != "" && o.ID == a.ID }); j >= 0 && a.Blob == "" {
				m.Attachments = slices.Clone(m.Attachments)
				m.Attachments[i].Blob = old.Attachments[j].Blob
			}
		}
	case fault.KindOf(err) != fault.NotFound:
		return err
	}
	return writeSurfaceMessage(tx, m)
}

func writeSurfaceMessage(tx *db.Tx, m surface.Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message %s: %w", m.ID, err)
	}
	var row int64
	if err := tx.QueryRow(`INSERT INTO surface_messages (platform, channel_id, id, reply_to, edited_at, deleted_at, at, json) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (platform, channel_id, id) DO UPDATE SET reply_to = excluded.reply_to, edited_at = excluded.edited_at, deleted_at = excluded.deleted_at, at = excluded.at, json = excluded.json
		RETURNING row`, m.Platform, m.ChannelID, m.ID, m.ReplyTo, m.EditedAt, m.DeletedAt, tx.Now().UnixMilli(), data).Scan(&row); err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	if err := replaceMessageRefs(tx, m); err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM surface_words WHERE rowid = ?`, row); err != nil {
		return fmt.Errorf("forget the words of a message: %w", err)
	}
	if m.Text == "" {
		return nil
	}
	_, err = tx.Exec(indexSurfaceMessage, row, segment(m.Text))
	return wrap("index message", err)
}

// ReadUpTo implements [surface.MessageCache].
func (c SurfaceSessions) ReadUpTo(tx *db.Tx, m surface.Message) error {
	s, err := c.Session(tx, m.Platform, m.ChannelID)
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if !laterID(m.ID, s.ReadMessageID) {
		return nil
	}
	s.ReadMessageID, s.UpdatedAt = m.ID, max(s.UpdatedAt, m.CreatedAt)
	if laterID(m.ID, s.LastMessageID) {
		s.LastMessageID = m.ID
	}
	return c.PutSession(tx, s)
}

// laterID reports whether a is after b in the order of surfaceMigration.
func laterID(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// MarkDeleted implements [surface.MessageCache].
func (c SurfaceMessages) MarkDeleted(tx *db.Tx, platform, channelID, messageID string, at int64) error {
	m, err := c.any(tx, platform, channelID, messageID)
	if fault.KindOf(err) == fault.NotFound {
		m, err = surface.Message{Platform: platform, ChannelID: channelID, ID: messageID}, nil
	}
	if err != nil {
		return err
	}
	m.Text, m.Attachments, m.Mentions, m.Raw, m.DeletedAt = "", nil, nil, nil, max(at, 1)
	return writeSurfaceMessage(tx, m)
}

// any returns a message, even if it was deleted.
func (SurfaceMessages) any(q db.Queryer, platform, channelID, messageID string) (m surface.Message, err error) {
	var data []byte
	err = q.QueryRow(`SELECT json FROM surface_messages WHERE platform = ? AND channel_id = ? AND id = ?`, platform, channelID, messageID).Scan(&data)
	if err != nil {
		return m, wrap("read message", notFound(err, "There is no message %s in %s.", messageID, channelID))
	}
	return m, wrap("decode message", json.Unmarshal(data, &m))
}

// Message implements [surface.MessageCache]. It returns a fault.NotFound for a deleted message.
func (c SurfaceMessages) Message(q db.Queryer, platform, channelID, messageID string) (surface.Message, error) {
	m, err := c.any(q, platform, channelID, messageID)
	if err == nil && m.DeletedAt > 0 {
		return surface.Message{}, fault.New(fault.NotFound, "The message %s was deleted.", messageID)
	}
	return m, err
}

// IsOurs implements [surface.MessageCache].
func (c SurfaceMessages) IsOurs(q db.Queryer, platform, channelID, messageID string) (bool, error) {
	m, err := c.any(q, platform, channelID, messageID)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return m.FromSelf, err
}

func scanSurfaceMessage(r scanner) (m surface.Message, err error) {
	var data []byte
	if err := r.Scan(&data); err != nil {
		return m, err
	}
	return m, json.Unmarshal(data, &m)
}

// Messages implements [surface.MessageCache].
func (SurfaceMessages) Messages(q db.Queryer, platform, channelID, before string, limit int) ([]surface.Message, error) {
	where, args := "", []any{platform, channelID}
	if before != "" {
		where, args = " AND (length(id), id) < (length(?), ?)", append(args, before, before)
	}
	out, err := collect(q, scanSurfaceMessage, `SELECT json FROM surface_messages WHERE platform = ? AND channel_id = ? AND deleted_at = 0`+where+
		` ORDER BY length(id) DESC, id DESC LIMIT ?`, append(args, pageSize(limit))...)
	return out, wrap("list messages", err)
}

// ReplyChain implements [surface.MessageCache].
func (c SurfaceMessages) ReplyChain(q db.Queryer, platform, channelID, messageID string, depth int) ([]surface.Message, error) {
	var chain []surface.Message
	seen := map[string]bool{}
	for id := messageID; id != "" && !seen[id] && len(chain) < min(depth, maxChain); {
		m, err := c.Message(q, platform, channelID, id)
		if fault.KindOf(err) == fault.NotFound && len(chain) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		seen[id] = true
		chain = append(chain, m)
		id = m.ReplyTo
	}
	slices.Reverse(chain)
	return chain, nil
}

// SearchMessages implements [surface.MessageCache].
func (SurfaceMessages) SearchMessages(q db.Queryer, platform string, channelIDs []string, query string, limit int) ([]surface.Message, error) {
	terms := Terms(query)
	if len(terms) == 0 || len(channelIDs) == 0 {
		return nil, nil
	}
	if len(channelIDs) > maxListed {
		return nil, fault.New(fault.TooLarge, "A search covers at most %d channels.", maxListed)
	}
	channels, err := jsonList(channelIDs)
	if err != nil {
		return nil, err
	}
	out, err := collect(q, scanSurfaceMessage, searchSurfaceMessages, matchExpression(terms), platform, channels, pageSize(limit))
	return out, wrap("search messages", err)
}

// PutSession implements [surface.Directory].
func (SurfaceSessions) PutSession(tx *db.Tx, s surface.Session) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode session %s: %w", s.ChannelID, err)
	}
	_, err = tx.Exec(`INSERT INTO surface_sessions (platform, channel_id, updated_at, kind, title_key, at, json) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (platform, channel_id) DO UPDATE SET updated_at = excluded.updated_at, kind = excluded.kind, title_key = excluded.title_key, at = excluded.at, json = excluded.json`,
		s.Platform, s.ChannelID, s.UpdatedAt, string(s.Kind), titleKey(s.Title), tx.Now().UnixMilli(), data)
	return wrap("write session", err)
}

func scanSurfaceSession(r scanner) (s surface.Session, err error) {
	var data []byte
	if err := r.Scan(&data); err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// Session implements [surface.Directory].
func (SurfaceSessions) Session(q db.Queryer, platform, channelID string) (surface.Session, error) {
	s, err := scanSurfaceSession(q.QueryRow(`SELECT json FROM surface_sessions WHERE platform = ? AND channel_id = ?`, platform, channelID))
	return s, wrap("read session", notFound(err, "There is no session %s on %s.", channelID, platform))
}

// Sessions implements [surface.Directory].
func (SurfaceSessions) Sessions(q db.Queryer, platform string) ([]surface.Session, error) {
	out, err := collect(q, scanSurfaceSession,
		`SELECT json FROM surface_sessions WHERE platform = ? ORDER BY updated_at DESC, channel_id LIMIT ?`, platform, maxListed)
	return out, wrap("list sessions", err)
}

// titleKey returns the form of a title by which [SurfaceSessions.SessionsTitled] finds it:
// lowercase, without a leading #.
func titleKey(title string) string { return strings.ToLower(strings.TrimPrefix(title, "#")) }

// SessionsTitled implements [surface.Directory].
func (SurfaceSessions) SessionsTitled(q db.Queryer, platform, title string) ([]surface.Session, error) {
	out, err := collect(q, scanSurfaceSession,
		`SELECT json FROM surface_sessions WHERE platform = ?1 AND channel_id IN (SELECT channel_id FROM surface_sessions WHERE platform = ?1 AND title_key = ?2 AND title_key <> '')
		ORDER BY channel_id LIMIT ?3`, platform, titleKey(title), maxTitled)
	return out, wrap("look up sessions by title", err)
}

// ForgetSession implements [discord.ChannelTable]. The messages of the session remain until
// TrimMessages deletes them.
func (SurfaceSessions) ForgetSession(tx *db.Tx, platform, channelID string) error {
	_, err := tx.Exec(`DELETE FROM surface_sessions WHERE platform = ? AND (channel_id = ? OR json ->> '$.parentChannelId' = ?)`, platform, channelID, channelID)
	return wrap("forget session", err)
}

// ForgetMissing implements [discord.ChannelTable].
func (SurfaceSessions) ForgetMissing(tx *db.Tx, platform, guildID string, channelIDs []string) error {
	left, err := json.Marshal(channelIDs)
	if err != nil {
		return fmt.Errorf("encode channels: %w", err)
	}
	_, err = tx.Exec(`DELETE FROM surface_sessions WHERE platform = ? AND json ->> '$.guildId' = ?
		AND CASE WHEN kind = ? THEN json ->> '$.parentChannelId' ELSE channel_id END NOT IN (SELECT value FROM json_each(?))`,
		platform, guildID, string(surface.Thread), string(left))
	return wrap("forget sessions", err)
}

// PutUser implements [surface.Directory].
func (SurfaceUsers) PutUser(tx *db.Tx, platform string, u surface.User) error {
	// Update an unchanged row at most once per userSeenEvery, not with each message.
	_, err := tx.Exec(`INSERT INTO surface_users (platform, id, name, name_key, bot, at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (platform, id) DO UPDATE SET name = excluded.name, name_key = excluded.name_key, bot = excluded.bot, at = excluded.at
		WHERE surface_users.name <> excluded.name OR surface_users.bot <> excluded.bot OR surface_users.at < excluded.at - ?`,
		platform, u.ID, u.Name, strings.ToLower(u.Name), u.Bot, tx.Now().UnixMilli(), userSeenEvery.Milliseconds())
	return wrap("write user", err)
}

func scanUser(r scanner) (u surface.User, err error) {
	return u, r.Scan(&u.ID, &u.Name, &u.Bot)
}

// User implements [surface.Directory].
func (SurfaceUsers) User(q db.Queryer, platform, id string) (surface.User, error) {
	u, err := scanUser(q.QueryRow(`SELECT id, name, bot FROM surface_users WHERE platform = ? AND id = ?`, platform, id))
	return u, wrap("read user", notFound(err, "There is no user %s on %s.", id, platform))
}

// UsersNamed implements [surface.Directory].
func (SurfaceUsers) UsersNamed(q db.Queryer, platform, name string) ([]surface.User, error) {
	out, err := collect(q, scanUser,
		`SELECT id, name, bot FROM surface_users WHERE platform = ?1 AND id IN (SELECT id FROM surface_users WHERE platform = ?1 AND name_key = ?2) ORDER BY id LIMIT 10`,
		platform, strings.ToLower(name))
	return out, wrap("find users", err)
}
