package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// History is the table of the messages of each session and of the summaries that
// compaction wrote.
type History struct{ HistoryIndex }

// AppendHistory appends a message and returns its sequence number. If the session already
// has a message with this id, AppendHistory changes nothing.
func (History) AppendHistory(tx *db.Tx, sessionID string, m session.HistoryMessage) (seq int64, err error) {
	var prior *int64
	err = tx.QueryRow(`SELECT (SELECT seq FROM history WHERE session_id = ?1 AND id = ?2), coalesce(max(seq), 0) + 1
		FROM history WHERE session_id = ?1`, sessionID, m.ID).Scan(&prior, &seq)
	if err != nil {
		return 0, fmt.Errorf("number message: %w", err)
	}
	if prior != nil {
		return *prior, nil
	}
	m.Seq = seq
	return seq, insertHistory(tx, sessionID, m, m.RequestID)
}

// insertHistory inserts a message with its number. Its long texts may be those of an owner; see
// [longtext.Shorten].
func insertHistory(tx *db.Tx, sessionID string, m session.HistoryMessage, textsOf string) error {
	data, err := json.Marshal(m.Message)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if data, err = longtext.Shorten(tx, textsOf, data); err != nil {
		return fmt.Errorf("append message: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO history (session_id, seq, id, request_id, created_at, json, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		sessionID, m.Seq, m.ID, m.RequestID, m.CreatedAt, data, rowChecksum(sessionID, m.Seq, m.ID, m.RequestID, m.CreatedAt, data))
	if err != nil {
		return fmt.Errorf("append message: %w", err)
	}
	return Files{}.ReferFiles(tx, sessionID, m.Message.Parts)
}

// HasHistory reports whether the history of a session contains a message.
func (History) HasHistory(q db.Queryer, sessionID, id string) (bool, error) {
	return exists(q, `SELECT 1 FROM history WHERE session_id = ? AND id = ?`, sessionID, id)
}

func scanHistory(q db.Queryer) func(scanner) (session.HistoryMessage, error) {
	return func(r scanner) (m session.HistoryMessage, err error) {
		var data []byte
		var checksum int64
		var sessionID string
		if err := r.Scan(&sessionID, &m.Seq, &m.ID, &m.RequestID, &m.CreatedAt, &data, &checksum); err != nil {
			return m, err
		}
		return m, decodeLong(q, historyTable, checksum, data, &m.Message, sessionID, m.Seq, m.ID, m.RequestID, m.CreatedAt, data)
	}
}

const historyColumns = `session_id, seq, id, request_id, created_at, json, checksum`

// Messages returns the newest limit messages that are older than the message with the id
// before, oldest first. If before is empty, it returns the newest messages of all.
func (History) Messages(q db.Queryer, sessionID string, limit int, before string) ([]session.HistoryMessage, error) {
	return messagesOf(q, scanHistory(q), sessionID, limit, before, session.Span{})
}

func scanHistoryOrDamaged(q db.Queryer) func(scanner) (session.HistoryMessage, error) {
	return orDamaged(scanHistory(q), func(m session.HistoryMessage, why string) session.HistoryMessage {
		return session.HistoryMessage{ID: m.ID, RequestID: m.RequestID, Damaged: true, Message: chat.Text(chat.System, why)}
	})
}

// ListMessages is like [History.Messages], but for lists that people read: it replaces a
// damaged message with a placeholder that names the reason, and does not fail. It lists only
// messages of a span of time.
func (History) ListMessages(q db.Queryer, sessionID string, limit int, before string, in session.Span) ([]session.HistoryMessage, error) {
	return messagesOf(q, scanHistoryOrDamaged(q), sessionID, limit, before, in)
}

func messagesOf(q db.Queryer, scan func(scanner) (session.HistoryMessage, error), sessionID string, limit int, before string, in session.Span) ([]session.HistoryMessage, error) {
	if _, err := (Sessions{}).Session(q, sessionID); err != nil {
		return nil, err
	}
	query, args := `SELECT `+historyColumns+` FROM history WHERE session_id = ?`, []any{sessionID}
	if before != "" {
		var seq int64
		if err := q.QueryRow(`SELECT seq FROM history WHERE session_id = ? AND id = ?`, sessionID, before).Scan(&seq); err != nil {
			return nil, fmt.Errorf("read history: %w", notFound(err, "There is no message %q in this session.", before))
		}
		query += ` AND seq < ?`
		args = append(args, seq)
	}
	if in.From > 0 {
		query += ` AND created_at >= ?`
		args = append(args, in.From)
	}
	if in.Until > 0 {
		query += ` AND created_at <= ?`
		args = append(args, in.Until)
	}
	out, err := collect(q, scan, query+` ORDER BY seq DESC LIMIT ?`, append(args, pageSize(limit))...)
	slices.Reverse(out)
	return out, wrap("read history", err)
}

// Message returns one message of a session.
func (History) Message(q db.Queryer, sessionID, id string) (session.HistoryMessage, error) {
	out, err := collect(q, scanHistory(q), `SELECT `+historyColumns+` FROM history WHERE session_id = ? AND id = ?`, sessionID, id)
	if err == nil && len(out) == 0 {
		return session.HistoryMessage{}, fault.New(fault.NotFound, "There is no message %q in this session.", id)
	}
	if err != nil {
		return session.HistoryMessage{}, fmt.Errorf("read message: %w", err)
	}
	return out[0], nil
}

var conversationsMigration = db.Migration{Name: "store.0010-conversations", SQL: `
CREATE TABLE conversation_starts (
	session_id TEXT NOT NULL,
	seq        INTEGER NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;
`}

// BeginConversation implements [session.HistoryTable].
func (History) BeginConversation(tx *db.Tx, sessionID string, seq int64) error {
	_, err := tx.Exec(`INSERT INTO conversation_starts (session_id, seq, at) VALUES (?, ?, ?) ON CONFLICT (session_id, seq) DO UPDATE SET at = excluded.at`,
		sessionID, seq, tx.Now().UnixMilli())
	return wrap("begin conversation", err)
}

// The newest conversation of a session begins at beginning, and continues with its newest
// summary, of which %s is a column.
const (
	beginning     = `SELECT coalesce(max(seq), 0) FROM conversation_starts WHERE session_id = ?1`
	newestSummary = `SELECT %s FROM compactions WHERE session_id = ?1 AND kept_from >= (` + beginning + `) ORDER BY seq DESC LIMIT 1`
)

var (
	readConversation = `SELECT ` + historyColumns + ` FROM history WHERE session_id = ?1
		AND seq >= coalesce((` + fmt.Sprintf(newestSummary, "kept_from") + `), (` + beginning + `)) ORDER BY seq`
	readSummary = fmt.Sprintf(newestSummary, "seq, request_id, kept_from, created_at, json, checksum")
)

// Conversation returns the newest summary and the messages that it does not cover, as
// far as they belong to the newest conversation of the session. None of its reads depends on
// another, so that they can travel together.
func (History) Conversation(q db.Queryer, sessionID string) (out session.Conversation, err error) {
	if out.Messages, err = collect(q, scanHistory(q), readConversation, sessionID); err != nil {
		return out, fmt.Errorf("read history: %w", err)
	}
	var seq, createdAt, checksum int64
	var requestID string
	var data []byte
	err = q.QueryRow(readSummary, sessionID).Scan(&seq, &requestID, &out.KeptFrom, &createdAt, &data, &checksum)
	if errors.Is(err, db.ErrNoRows) {
		err = q.QueryRow(beginning, sessionID).Scan(&out.KeptFrom)
		return out, wrap("read conversation start", err)
	}
	if err != nil {
		return out, fmt.Errorf("read compaction: %w", err)
	}
	out.Summary = new(chat.Message)
	return out, decodeRow(compactionTable, checksum, data, out.Summary, sessionID, seq, requestID, out.KeptFrom, createdAt, data)
}

// AddCompaction adds a summary that replaces older messages in [History.Conversation]. The
// messages remain in the table.
func (History) AddCompaction(tx *db.Tx, c session.Compaction) error {
	data, err := json.Marshal(c.Summary)
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	var seq int64
	if err := tx.QueryRow(`SELECT coalesce(max(seq), 0) + 1 FROM compactions WHERE session_id = ?`, c.SessionID).Scan(&seq); err != nil {
		return fmt.Errorf("number compaction: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO compactions (session_id, seq, request_id, kept_from, created_at, json, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		c.SessionID, seq, c.RequestID, c.KeptFrom, c.CreatedAt, data,
		rowChecksum(c.SessionID, seq, c.RequestID, c.KeptFrom, c.CreatedAt, data))
	return wrap("insert compaction", err)
}
