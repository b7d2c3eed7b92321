package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/db"
	"lilac/internal/session"
)

// PutMail inserts a message into a session's mailbox, once.
func (s *Store) PutMail(tx *db.Tx, m session.Mail) (fresh bool, err error) {
	data, err := json.Marshal(m.Messages)
	if err != nil {
		return false, fmt.Errorf("encode mail: %w", err)
	}
	res, err := tx.Exec(`INSERT INTO session_inbox (session_id, message_id, request_id, queue, state, event_id, created_at, json, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		m.SessionID, m.MessageID, m.RequestID, m.Queue, m.State, m.EventID, m.CreatedAt, data, sum(m.MessageID, data))
	if err != nil {
		return false, fmt.Errorf("insert mail: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("insert mail: %w", err)
	}
	return n == 1, nil
}

// Mail returns a message of a session's mailbox.
func (s *Store) Mail(q db.Queryer, sessionID, messageID string) (session.Mail, error) {
	m := session.Mail{SessionID: sessionID, MessageID: messageID}
	var data []byte
	var checksum int64
	err := q.QueryRow(`SELECT request_id, queue, state, event_id, created_at, json, checksum FROM session_inbox
		WHERE session_id = ? AND message_id = ?`, sessionID, messageID).
		Scan(&m.RequestID, &m.Queue, &m.State, &m.EventID, &m.CreatedAt, &data, &checksum)
	if err != nil {
		return m, fmt.Errorf("read mail: %w", notFound(err, "There is no message %q in this session.", messageID))
	}
	return m, decode("session_inbox", messageID, data, checksum, &m.Messages)
}

// HasMail reports whether a session's mailbox has had a message.
func (s *Store) HasMail(q db.Queryer, sessionID, messageID string) (bool, error) {
	return exists(q, `SELECT 1 FROM session_inbox WHERE session_id = ? AND message_id = ?`, sessionID, messageID)
}

// MarkMail says what became of a message and which request it belongs to; an
// empty request keeps the one it has.
func (s *Store) MarkMail(tx *db.Tx, sessionID, messageID, requestID string, state session.MailState) error {
	_, err := tx.Exec(`UPDATE session_inbox SET state = ?, request_id = CASE WHEN ? = '' THEN request_id ELSE ? END
		WHERE session_id = ? AND message_id = ?`, state, requestID, requestID, sessionID, messageID)
	if err != nil {
		return fmt.Errorf("mark mail: %w", err)
	}
	return nil
}

func exists(q db.Queryer, query string, args ...any) (bool, error) {
	var one int
	err := q.QueryRow(query, args...).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a row: %w", err)
	}
	return true, nil
}
