package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Limits of a prompt, in bytes where nothing else is said. Content is what a
// person types or pastes; longer text belongs in a file. The files of one prompt
// fit into one call of every provider; [Options] may allow less.
const (
	maxPromptBody  = 32 << 20
	maxContent     = 1 << 20
	maxFile        = 10 << 20
	maxFiles       = 20 << 20
	maxAttachments = 20 // files
	maxFilename    = 255
	maxKey         = 200
)

// AcceptedTable records messages that were accepted but have not reached the
// runner.
type AcceptedTable interface {
	Accept(tx *db.Tx, sessionID, messageID string) error
	// AcceptedAt returns when a message was accepted that has not reached the runner.
	AcceptedAt(q db.Queryer, sessionID, messageID string) (at int64, known bool, err error)
	// State returns the runner's state of a session, or the zero state.
	State(q db.Queryer, sessionID string) (session.State, error)
}

// prompts accepts what people say.
type prompts struct {
	db          *db.DB
	table       AcceptedTable
	inbox       environment.Inbox
	sessions    *sessions
	files       *files
	attachments *attachments
	accepted    atomic.Int64 // prompts answered with 200
}

type promptBody struct {
	Content     string             `json:"content"`
	Queue       event.Queue        `json:"queue,omitempty"`
	Attachments []promptAttachment `json:"attachments,omitempty"`
}

// accepted is the response to a prompt.
type accepted struct {
	Success   bool   `json:"success"`
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	Message   string `json:"message"`
}

// remembered is the inbox row of a prompt with an Idempotency-Key.
type remembered struct {
	BodyHash string   `json:"bodyHash"`
	Answer   accepted `json:"answer"`
}

func (p *prompts) prompt(w http.ResponseWriter, r *http.Request) error {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return fault.InvalidField("Idempotency-Key", "An Idempotency-Key has at most %d characters.", maxKey)
	}
	raw, err := readBody(w, r, maxPromptBody)
	if err != nil {
		return err
	}
	var in promptBody
	if err := decode(raw, &in, false); err != nil {
		return err
	}
	if err := in.check(); err != nil {
		return err
	}
	if len(in.Attachments) > 0 { // store files only for a session that exists
		if _, err := p.sessions.get(r); err != nil {
			return err
		}
	}
	parts, err := p.attachments.store(r.Context(), in.Attachments)
	if err != nil {
		return err
	}
	answer, err := p.accept(r.Context(), r.PathValue("id"), key, sha256.Sum256(raw), in, parts)
	if err != nil {
		return err
	}
	p.accepted.Add(1)
	return writeJSON(w, http.StatusOK, answer)
}

func (b *promptBody) check() error {
	if b.Queue == "" {
		b.Queue = event.Prompt
	}
	switch {
	case strings.TrimSpace(b.Content) == "":
		return fault.InvalidField("content", "Content is required.")
	case len(b.Content) > maxContent:
		return &fault.Error{Kind: fault.TooLarge, Field: "content", Message: fmt.Sprintf("Content has at most %d bytes. Attach longer text as a file.", maxContent)}
	case !b.Queue.Valid():
		return fault.InvalidField("queue", "queue must be prompt, steer, followUp or interrupt.")
	case len(b.Attachments) > maxAttachments:
		return fault.InvalidField("attachments", "A prompt takes at most %d attachments.", maxAttachments)
	}
	return nil
}

// accept publishes the prompt as a user_query, once for each Idempotency-Key. The
// prompt is durable when accept returns.
func (p *prompts) accept(ctx context.Context, sessionID, key string, hash [sha256.Size]byte, in promptBody, parts []chat.Part) (accepted, error) {
	messageID := newID()
	var answer accepted
	err := p.db.Update(ctx, func(tx *db.Tx) error {
		s, err := p.sessions.table.Session(tx, sessionID)
		if err != nil {
			return err
		}
		query, err := userQuery(s, messageID, in, parts)
		if err != nil {
			return err
		}
		answer = accepted{Success: true, SessionID: s.ID, RequestID: query.RequestID, MessageID: messageID, Message: "Processing started"}
		if key != "" {
			prior, err := p.remember(tx, s.ID+":"+key, remembered{BodyHash: hex.EncodeToString(hash[:]), Answer: answer})
			if err != nil {
				return err
			}
			if prior != nil {
				answer = *prior
				return nil
			}
		}
		if err := p.checkQueue(tx, s.ID); err != nil {
			return err
		}
		if err := p.table.Accept(tx, s.ID, messageID); err != nil {
			return err
		}
		if err := p.files.table.ReferFiles(tx, s.ID, parts); err != nil {
			return err
		}
		return publishUser(ctx, tx, p.inbox, event.UserQuery, messageID, s.ID, query)
	})
	return answer, err
}

// publishUser publishes something that a person did in a session.
func publishUser(ctx context.Context, tx *db.Tx, inbox environment.Inbox, t event.Type, key, sessionID string, payload any) error {
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	_, err = environment.PublishTraced(tx, inbox, event.EnvEvent{
		ID:       string(t) + ":" + key,
		Type:     t,
		Metadata: event.EnvMetadata{TriggerSessionID: sessionID, Source: "user"},
		Payload:  raw,
	}, event.TraceParent(ctx))
	return err
}

// checkQueue refuses a prompt while the queue is full, because every accepted
// prompt must be answered.
func (p *prompts) checkQueue(tx *db.Tx, sessionID string) error {
	state, err := p.table.State(tx, sessionID)
	if err != nil || state.WaitingMessages() < session.MaxWaiting {
		return err
	}
	return &fault.Error{
		Kind: fault.RateLimited, Code: "too_many_waiting", RetryAfter: 30 * time.Second,
		Message: fmt.Sprintf("%d messages are already queued in this conversation. Send this one again when some are answered.", state.WaitingMessages()),
	}
}

// userQuery chooses the request: a prompt starts a new one; any other message
// goes to the running request, or starts a new one if nothing runs. A prompt that
// answers the question of a paused request goes to that request.
func userQuery(s session.Session, messageID string, in promptBody, parts []chat.Part) (event.UserQueryPayload, error) {
	if s.Paused != nil && len(parts) == 0 && s.Paused.ReadText(in.Content) != session.NoAnswer {
		in.Queue = event.Steer
	}
	fresh := event.RequestID{Surface: s.Client, Session: s.ID, Specific: messageID}.String()
	q := event.UserQueryPayload{SessionID: s.ID, Content: in.Content, RequestID: fresh, MessageID: messageID, Queue: in.Queue, Client: s.Client}
	if in.Queue != event.Prompt {
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

// remember stores the response under the key, or returns the stored one.
func (p *prompts) remember(tx *db.Tx, externalID string, now remembered) (*accepted, error) {
	value, err := json.Marshal(now)
	if err != nil {
		return nil, fmt.Errorf("encode response: %w", err)
	}
	raw, seen, err := p.inbox.Seen(tx, "http", externalID, value)
	if err != nil || !seen {
		return nil, err
	}
	var prior remembered
	if err := json.Unmarshal(raw, &prior); err != nil {
		return nil, fmt.Errorf("decode stored response: %w", err)
	}
	if prior.BodyHash != now.BodyHash {
		return nil, &fault.Error{Kind: fault.Conflict, Code: "idempotency_key_reused", Field: "Idempotency-Key", Message: "This Idempotency-Key was used for another prompt."}
	}
	return &prior.Answer, nil
}
