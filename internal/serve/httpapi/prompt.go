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

	"lilac/internal/core/account"
	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/prompting"
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
	prompting.AcceptedTable
	// AcceptedAt returns when a message was accepted that has not reached the runner.
	AcceptedAt(q db.Queryer, sessionID, messageID string) (at int64, known bool, err error)
}

// sourceUser is the source of events that the operator caused.
const sourceUser = "user"

// prompts accepts what people say.
type prompts struct {
	people      people
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

// readKeyed reads and checks a body that asks for an answer, and the Idempotency-Key of the call.
func readKeyed(w http.ResponseWriter, r *http.Request, in interface{ check() error }) (key string, hash [sha256.Size]byte, err error) {
	key = r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return "", hash, fault.InvalidField("Idempotency-Key", "An Idempotency-Key has at most %d characters.", maxKey)
	}
	if c := callerOf(r.Context()); c.HasAccount() && key != "" {
		key = c.ID + ":" + key // people do not know each other's keys
	}
	raw, err := readBody(w, r, maxPromptBody)
	if err != nil {
		return "", hash, err
	}
	if err := decode(raw, in, false); err != nil {
		return "", hash, err
	}
	return key, sha256.Sum256(raw), in.check()
}

func (p *prompts) prompt(w http.ResponseWriter, r *http.Request) error {
	var in promptBody
	key, hash, err := readKeyed(w, r, &in)
	if err != nil {
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
	answer, err := p.accept(r.Context(), r.PathValue("id"), key, hash, in, parts)
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
	case !b.Queue.Valid():
		return fault.InvalidField("queue", "queue must be prompt, steer, followUp or interrupt.")
	case len(b.Attachments) > maxAttachments:
		return fault.InvalidField("attachments", "A prompt takes at most %d attachments.", maxAttachments)
	}
	return checkContent(b.Content)
}

// checkContent refuses a text that is too long.
func checkContent(text string) error {
	if len(text) > maxContent {
		return &fault.Error{Kind: fault.TooLarge, Field: "content", Message: fmt.Sprintf("Content has at most %d bytes. Attach longer text as a file.", maxContent)}
	}
	return nil
}

// accept publishes the prompt as a user_query, once for each Idempotency-Key. The
// prompt is durable when accept returns.
func (p *prompts) accept(ctx context.Context, sessionID, key string, hash [sha256.Size]byte, in promptBody, parts []chat.Part) (accepted, error) {
	messageID := newID()
	var answer accepted
	to := prompting.Tables{Inbox: p.inbox, Accepted: p.table, Files: p.files.table}
	err := p.db.Update(ctx, func(tx *db.Tx) error {
		tx.Ahead(func(tx *db.Tx) {
			_, _ = p.sessions.table.Session(tx, sessionID)
			if key != "" {
				_, _ = p.remember(tx, sessionID+":"+key, remembered{})
			}
			to.Ahead(tx, sessionID, messageID)
		})
		s, err := p.sessions.table.Session(tx, sessionID)
		if err != nil {
			return err
		}
		query, err := prompting.Query(s, messageID, in.Content, in.Queue, parts)
		if err != nil {
			return err
		}
		answer = accepted{Success: true, SessionID: s.ID, RequestID: query.RequestID, MessageID: messageID, Message: "Processing started"}
		if repeated, err := p.repeats(tx, s.ID, key, hash, &answer); err != nil || repeated {
			return err
		}
		if err := p.signed(tx, ctx, &query); err != nil {
			return err
		}
		return to.Accept(ctx, tx, query, parts, sourceUser)
	})
	return answer, err
}

// signed names the author of a prompt, and records that the author sent it.
func (p *prompts) signed(tx *db.Tx, ctx context.Context, query *event.UserQueryPayload) (err error) {
	if query.Author, err = p.people.author(tx, callerOf(ctx), query.SessionID); err != nil {
		return err
	}
	return p.people.note(tx, ctx, account.Action{Kind: "prompt", SessionID: query.SessionID, Subject: query.MessageID})
}

// repeats reports whether a call with a key was accepted before. Then answer becomes the earlier
// answer.
func (p *prompts) repeats(tx *db.Tx, scope, key string, hash [sha256.Size]byte, answer *accepted) (bool, error) {
	if key == "" {
		return false, nil
	}
	prior, err := p.remember(tx, scope+":"+key, remembered{BodyHash: hex.EncodeToString(hash[:]), Answer: *answer})
	if err != nil || prior == nil {
		return false, err
	}
	*answer = *prior
	return true, nil
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
