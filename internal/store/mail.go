package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Mailbox is the table of messages that were sent to a session, and of those that a
// session was promised.
type Mailbox struct{}

// PutMail inserts a message into a session's mailbox, once.
func (Mailbox) PutMail(tx *db.Tx, m session.Mail) (fresh bool, err error) {
	data, err := json.Marshal(m.Messages)
	if err != nil {
		return false, fmt.Errorf("encode mail: %w", err)
	}
	values := mailValues(m, data)
	res, err := tx.Exec(`INSERT INTO session_inbox (session_id, message_id, request_id, queue, state, event_id, created_at, json, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(values, seal(values...))...)
	if err != nil {
		return false, fmt.Errorf("insert mail: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("insert mail: %w", err)
	}
	for _, message := range m.Messages {
		if err := (Files{}).ReferFiles(tx, m.SessionID, message.Parts); err != nil {
			return false, err
		}
	}
	return n == 1, nil
}

// mailValues are the columns of a message, in the order of mailRows.
func mailValues(m session.Mail, data []byte) []any {
	return []any{m.SessionID, m.MessageID, m.RequestID, string(m.Queue), string(m.State), m.EventID, m.CreatedAt, data}
}

// Mail returns a message of a session's mailbox.
func (Mailbox) Mail(q db.Queryer, sessionID, messageID string) (session.Mail, error) {
	m, _, err := readMail(q, sessionID, messageID)
	return m, err
}

func readMail(q db.Queryer, sessionID, messageID string) (m session.Mail, data []byte, err error) {
	m = session.Mail{SessionID: sessionID, MessageID: messageID}
	var checksum int64
	err = q.QueryRow(`SELECT request_id, queue, state, event_id, created_at, json, checksum FROM session_inbox
		WHERE session_id = ? AND message_id = ?`, sessionID, messageID).
		Scan(&m.RequestID, &m.Queue, &m.State, &m.EventID, &m.CreatedAt, &data, &checksum)
	if err != nil {
		return m, nil, fmt.Errorf("read mail: %w", notFound(err, "There is no message %q in this session.", messageID))
	}
	return m, data, open(mailRows, checksum, data, &m.Messages, mailValues(m, data)...)
}

// HasMail reports whether a session's mailbox has had a message.
func (Mailbox) HasMail(q db.Queryer, sessionID, messageID string) (bool, error) {
	return exists(q, `SELECT 1 FROM session_inbox WHERE session_id = ? AND message_id = ?`, sessionID, messageID)
}

// MarkMail says what became of a message and which request it belongs to; an
// empty request keeps the one it has. A damaged row stays as it is.
func (Mailbox) MarkMail(tx *db.Tx, sessionID, messageID, requestID string, state session.MailState) error {
	m, data, err := readMail(tx, sessionID, messageID)
	if fault.KindOf(err) == fault.NotFound || db.IsDamaged(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.State = state; requestID != "" {
		m.RequestID = requestID
	}
	_, err = tx.Exec(`UPDATE session_inbox SET state = ?, request_id = ?, checksum = ? WHERE session_id = ? AND message_id = ?`,
		string(m.State), m.RequestID, seal(mailValues(m, data)...), sessionID, messageID)
	return wrap("mark mail", err)
}

func exists(q db.Queryer, query string, args ...any) (bool, error) {
	var one int
	err := q.QueryRow(query, args...).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a row: %w", err)
	}
	return true, nil
}
