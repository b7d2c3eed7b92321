package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Mailbox is the table of messages that were sent to a session, and of message ids that
// were accepted for a session and have not reached its runner.
type Mailbox struct{}

var acceptedMigration = db.Migration{Name: "store.0008-accepted", SQL: `
CREATE TABLE session_accepted (
	session_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	at         INTEGER NOT NULL,
	PRIMARY KEY (session_id, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_accepted_at ON session_accepted (at);
`}

// acceptedMaxAge is how long an accepted message protects its session from deletion. A
// message that was not handled for so long is a dead letter, or waits for a log that
// is unreachable.
const acceptedMaxAge = time.Hour

// Accept records that a message was accepted for a session. The session cannot be
// deleted until the runner claims the message.
func (Mailbox) Accept(tx *db.Tx, sessionID, messageID string) error {
	_, err := tx.Exec(`INSERT INTO session_accepted (session_id, message_id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
		sessionID, messageID, tx.Now().UnixMilli())
	return wrap("record accepted message", err)
}

// AcceptedAt returns when a message was accepted that has not reached its runner, in Unix
// milliseconds. known is false for every other message.
func (Mailbox) AcceptedAt(q db.Queryer, sessionID, messageID string) (at int64, known bool, err error) {
	err = q.QueryRow(`SELECT at FROM session_accepted WHERE session_id = ? AND message_id = ?`, sessionID, messageID).Scan(&at)
	if errors.Is(err, db.ErrNoRows) {
		return 0, false, nil
	}
	return at, err == nil, wrap("read accepted message", err)
}

// ClaimAccepted records that the runner has a message, and reports whether Accept
// recorded it before.
func (Mailbox) ClaimAccepted(tx *db.Tx, sessionID, messageID string) (accepted bool, err error) {
	_, accepted, err = Mailbox{}.AcceptedAt(tx, sessionID, messageID)
	if err != nil || !accepted {
		return false, err
	}
	_, err = tx.Exec(`DELETE FROM session_accepted WHERE session_id = ? AND message_id = ?`, sessionID, messageID)
	return true, wrap("claim accepted message", err)
}

// refuseIfAccepted refuses to delete a session while an accepted message is on its way.
// The record of an older message remains: it keeps that message from creating the
// session again.
func refuseIfAccepted(tx *db.Tx, id string) error {
	accepted, err := exists(tx, `SELECT 1 FROM session_accepted WHERE session_id = ? AND at > ?`,
		id, tx.Now().Add(-acceptedMaxAge).UnixMilli())
	if err != nil {
		return fmt.Errorf("read accepted messages: %w", err)
	}
	if accepted {
		return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "A message to this conversation was accepted and is about to start. Try again in a moment."}
	}
	return nil
}

// PutMail inserts a message. It returns false, and changes nothing, if the message
// exists.
func (Mailbox) PutMail(tx *db.Tx, m session.Mail) (fresh bool, err error) {
	data, err := json.Marshal(m.Messages)
	if err != nil {
		return false, fmt.Errorf("encode mail: %w", err)
	}
	values := mailValues(m, data)
	n, err := tx.ExecExpecting(1, `INSERT INTO session_inbox (session_id, message_id, request_id, queue, state, event_id, created_at, json, checksum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(values, rowChecksum(values...))...)
	if err != nil {
		return false, fmt.Errorf("insert mail: %w", err)
	}
	for _, message := range m.Messages {
		if err := (Files{}).ReferFiles(tx, m.SessionID, message.Parts); err != nil {
			return false, err
		}
	}
	return n > 0, nil
}

// mailValues returns the columns of a message in the order of mailTable.
func mailValues(m session.Mail, data []byte) []any {
	return []any{m.SessionID, m.MessageID, m.RequestID, string(m.Queue), string(m.State), m.EventID, m.CreatedAt, data}
}

// Mail returns a message.
func (Mailbox) Mail(q db.Queryer, sessionID, messageID string) (session.Mail, error) {
	m, _, err := readMail(q, sessionID, messageID)
	return m, err
}

// readMail returns a message and its JSON.
func readMail(q db.Queryer, sessionID, messageID string) (m session.Mail, data []byte, err error) {
	m = session.Mail{SessionID: sessionID, MessageID: messageID}
	var checksum int64
	err = q.QueryRow(`SELECT request_id, queue, state, event_id, created_at, json, checksum FROM session_inbox
		WHERE session_id = ? AND message_id = ?`, sessionID, messageID).
		Scan(&m.RequestID, &m.Queue, &m.State, &m.EventID, &m.CreatedAt, &data, &checksum)
	if err != nil {
		return m, nil, fmt.Errorf("read mail: %w", notFound(err, "There is no message %q in this session.", messageID))
	}
	return m, data, decodeRow(mailTable, checksum, data, &m.Messages, mailValues(m, data)...)
}

// HasMail reports whether the mailbox contains a message, also one that was applied.
func (Mailbox) HasMail(q db.Queryer, sessionID, messageID string) (bool, error) {
	return exists(q, `SELECT 1 FROM session_inbox WHERE session_id = ? AND message_id = ?`, sessionID, messageID)
}

// MarkMail sets the state of a message, and its request unless requestID is empty. A
// damaged row stays as it is.
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
		string(m.State), m.RequestID, rowChecksum(mailValues(m, data)...), sessionID, messageID)
	return wrap("mark mail", err)
}
