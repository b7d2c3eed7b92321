// Package prompting accepts what people say over HTTP. The API of conversations and other
// entry points share it, so that each accepts a prompt in the same way: durably, once, and
// never more of them than a conversation can hold.
//
// Its functions run in a transaction of the caller, and are safe for concurrent use.
package prompting

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// AcceptedTable records messages that were accepted but have not reached the
// runner.
type AcceptedTable interface {
	Accept(tx *db.Tx, sessionID, messageID string) error
	// State returns the runner's state of a session, or the zero state.
	State(q db.Queryer, sessionID string) (session.State, error)
}

// FileTable notes which files a session refers to.
type FileTable interface {
	ReferFiles(tx *db.Tx, sessionID string, parts []chat.Part) error
}

// Tables are the tables that a prompt is written to.
type Tables struct {
	Inbox    environment.Inbox
	Accepted AcceptedTable
	Files    FileTable
}

// Query chooses the request of a prompt: a prompt starts a new one; any other message goes
// to the running request, or starts a new one if nothing runs. A prompt that answers the
// question of a paused request goes to that request.
func Query(s session.Session, messageID, content string, queue event.Queue, parts []chat.Part) (event.UserQueryPayload, error) {
	if s.Paused != nil && len(parts) == 0 && s.Paused.ReadText(content) != session.NoAnswer {
		queue = event.Steer
	}
	fresh := event.RequestID{Surface: s.Client, Session: s.ID, Specific: messageID}.String()
	q := event.UserQueryPayload{SessionID: s.ID, Content: content, RequestID: fresh, MessageID: messageID, Queue: queue, Client: s.Client}
	if queue != event.Prompt {
		q.ElseRequestID = fresh
		if s.ActiveRequest != "" {
			q.RequestID = s.ActiveRequest
		}
	}
	if len(parts) > 0 {
		raw, err := json.Marshal(parts)
		if err != nil {
			return q, fmt.Errorf("encode attachments: %w", err)
		}
		q.Attachments = raw
	}
	return q, nil
}

// Ahead announces the reads of [Tables.Accept]; see [db.Tx.Ahead].
func (t Tables) Ahead(tx *db.Tx, sessionID, messageID string) {
	_, _ = t.Accepted.State(tx, sessionID)
	_, _, _ = t.Inbox.Seen(tx, environment.Source, eventID(event.UserQuery, messageID), nil)
}

// Accept publishes a prompt as a user_query. source is "user" for the operator, or
// [event.SourceEntry] for a program.
func (t Tables) Accept(ctx context.Context, tx *db.Tx, query event.UserQueryPayload, parts []chat.Part, source string) error {
	if err := t.checkQueue(tx, query.SessionID); err != nil {
		return err
	}
	if err := t.Accepted.Accept(tx, query.SessionID, query.MessageID); err != nil {
		return err
	}
	if err := t.Files.ReferFiles(tx, query.SessionID, parts); err != nil {
		return err
	}
	return Publish(ctx, tx, t.Inbox, event.UserQuery, query.MessageID, query.SessionID, source, query)
}

// Publish publishes something that a person or a program did in a session.
func Publish(ctx context.Context, tx *db.Tx, inbox environment.Inbox, t event.Type, key, sessionID, source string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	_, err = environment.PublishTraced(tx, inbox, event.EnvEvent{
		ID:       eventID(t, key),
		Type:     t,
		Metadata: event.EnvMetadata{TriggerSessionID: sessionID, Source: source},
		Payload:  raw,
	}, event.TraceParent(ctx))
	return err
}

func eventID(t event.Type, key string) string { return string(t) + ":" + key }

// checkQueue refuses a prompt while the queue is full, because every accepted
// prompt must be answered.
func (t Tables) checkQueue(tx *db.Tx, sessionID string) error {
	state, err := t.Accepted.State(tx, sessionID)
	if err != nil || state.WaitingMessages() < session.MaxWaiting {
		return err
	}
	return &fault.Error{
		Kind: fault.RateLimited, Code: "too_many_waiting", RetryAfter: 30 * time.Second,
		Message: fmt.Sprintf("%d messages are already queued in this conversation. Send this one again when some are answered.", state.WaitingMessages()),
	}
}
