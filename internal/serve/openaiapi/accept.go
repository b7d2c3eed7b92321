package openaiapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/serve/prompting"
)

// ClientPrefix begins the clients of conversations: v1-NAME.
const ClientPrefix = "v1-"

// ClientOf returns the client of the conversations of a program.
func ClientOf(name string) string { return ClientPrefix + name }

// selector says which conversation a call continues.
type selector struct {
	// id is the id of a conversation, or of one that a name stands for.
	id string
	// begins reports that a conversation that does not exist begins.
	begins bool
	// field is the parameter that selected it.
	field string
}

// selects returns the selector of a call: the response before, the header, or an answer to which an
// item of the input refers. The field user is no selector: programs name a person in it, and a person has many chats.
func selects(r *http.Request, previous, reference string) (selector, error) {
	name := strings.TrimSpace(r.Header.Get(sessionHeader))
	if len(name) > maxKey {
		return selector{}, fault.InvalidField(sessionHeader, "The name of a conversation has at most %d characters.", maxKey)
	}
	switch {
	case previous != "":
		id, ok := sessionOf(previous, "resp_")
		if !ok {
			return selector{}, fault.New(fault.NotFound, "There is no response %q.", previous)
		}
		return selector{id: id, field: "previous_response_id"}, nil
	case name != "":
		return selector{id: name, begins: true, field: sessionHeader}, nil
	case reference != "":
		id, ok := sessionOf(reference, "msg_")
		if !ok {
			return selector{}, fault.New(fault.NotFound, "There is no item %q. An item_reference can name the message of an answer of Lilac.", reference)
		}
		return selector{id: id, field: "input"}, nil
	}
	return selector{}, nil
}

// namedID returns the id of the conversation that a client gave a name. It is always the
// same, so that nothing needs to be remembered.
func namedID(client, name string) string {
	sum := sha256.Sum256([]byte(client + "\x00" + name))
	return hex.EncodeToString(sum[:16])
}

// responseID names a call in a conversation.
func responseID(sessionID, messageID string) string { return "resp_" + sessionID + "_" + messageID }

// itemID names the message in the answer to a call. Like [responseID], it leads to the
// conversation, because a client may refer to the message instead of repeating it.
func itemID(r run) string { return "msg_" + r.SessionID + "_" + r.MessageID }

// sessionOf returns the conversation of a response or an item.
func sessionOf(id, prefix string) (sessionID string, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	at := strings.LastIndexByte(rest, '_')
	if !ok || at <= 0 {
		return "", false
	}
	return rest[:at], true
}

// run is a call that was accepted.
type run struct {
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	// BodyHash is the hash of the request, and At its time in milliseconds since 1970, for
	// repetitions.
	BodyHash string `json:"bodyHash"`
	At       int64  `json:"at,omitempty"`
	// Process is the one that has the connection of the latest attempt, and LostAt the time at which the
	// connection broke, or 0.
	Process string `json:"process,omitempty"`
	LostAt  int64  `json:"lostAt,omitempty"`
	// After is the position of the lifecycle events before the call.
	After bus.Position `json:"after,omitempty"`
}

// accept accepts a call, once for all attempts of the client. It is durable when accept returns.
func (h *Handler) accept(ctx context.Context, c *call, sel selector) error {
	parts, err := h.keep(ctx, c.files)
	if err != nil {
		return err
	}
	after, err := h.o.Bus.Last(ctx, event.TopicRequest)
	if err != nil {
		return fmt.Errorf("find the end of the requests: %w", err)
	}
	messageID, fresh := newID(), newID()
	return h.o.DB.Update(ctx, func(tx *db.Tx) error {
		tx.Ahead(func(tx *db.Tx) {
			if sel.id != "" {
				_, _ = h.o.Sessions.Session(tx, sel.id)
				h.o.Tables.Ahead(tx, sel.id, messageID)
			}
			_, _ = h.remember(tx, c.attempt, run{})
		})
		sel := sel
		if c.repeats != "" {
			var err error
			if sel, err = h.continues(tx, c); err != nil {
				return err
			}
		}
		s, begins, err := h.session(tx, c, sel, fresh)
		if err != nil {
			return err
		}
		text := c.prompt
		if begins {
			text = c.opening()
		}
		query, err := prompting.Query(s, messageID, text, event.Prompt, parts)
		if err != nil {
			return err
		}
		c.run = run{SessionID: s.ID, RequestID: query.RequestID, MessageID: messageID, BodyHash: c.hash, At: h.o.Now().UnixMilli(), Process: h.process, After: after}
		prior, err := h.remember(tx, c.attempt, c.run)
		if err != nil {
			return err
		}
		if prior != nil {
			c.run = *prior
			return nil
		}
		if err := checkQuestion(s, query); err != nil {
			return err
		}
		if begins {
			if err := h.begin(ctx, tx, s); err != nil {
				return err
			}
		}
		if err := h.noteNewest(tx, s.ID, messageID); err != nil {
			return err
		}
		return h.o.Tables.Accept(ctx, tx, query, parts, event.SourceEntry)
	})
}

// session finds or begins the conversation of a call. A call with a key that was used before
// never begins one: accept returns what it did then.
func (h *Handler) session(q db.Queryer, c *call, sel selector, fresh string) (s session.Session, begins bool, err error) {
	id := fresh
	if sel.id != "" {
		id = sel.id
		s, err = h.o.Sessions.Session(q, id)
		if fault.KindOf(err) == fault.NotFound && sel.field == sessionHeader {
			id = namedID(c.client, "name:"+sel.id)
			s, err = h.o.Sessions.Session(q, id)
		}
		unknown := fault.KindOf(err) == fault.NotFound
		switch {
		case err != nil && !unknown:
			return s, false, err
		case !unknown && s.Client != c.surface, unknown && !sel.begins:
			// A conversation of somebody else is not told from one that does not exist.
			return s, false, &fault.Error{Kind: fault.NotFound, Field: sel.field, Message: "There is no such conversation."}
		case !unknown:
			return s, false, nil
		}
	}
	now := h.o.Now().UnixMilli()
	s = session.Session{ID: id, Client: c.surface, Choice: c.model.Choice, CreatedAt: now, UpdatedAt: now, State: "idle"}
	s.Instructions = strings.TrimSpace(s.Instructions + "\n\n" + c.instructions)
	return s, true, nil
}

// codeQuestionOpen is the code of a call that does not answer the open question of its
// conversation: it would wait for somebody else's answer.
const codeQuestionOpen = "question_open"

func checkQuestion(s session.Session, query event.UserQueryPayload) error {
	p := s.Paused
	if p == nil || query.Queue == event.Steer && (p.Kind != session.ForApproval || policy.MayApprove(p.Approvers, grant.Person{ID: s.Client})) {
		return nil
	}
	advice := "Answer it, or use another conversation."
	if p.Kind == session.ForApproval {
		advice = "The operator can answer it, and the people whom the policy names."
	}
	return &fault.Error{Kind: fault.Conflict, Code: codeQuestionOpen, Message: "The conversation waits for an answer to a question: " + p.Question + "\n\n" + advice}
}

// begin stores a conversation that begins.
func (h *Handler) begin(ctx context.Context, tx *db.Tx, s session.Session) error {
	if err := h.o.Sessions.CreateSession(tx, s); err != nil {
		return err
	}
	if s.Choice != (session.Choice{}) {
		if err := h.o.Sessions.SetChoice(tx, s.ID, s.Choice); err != nil {
			return err
		}
	}
	return prompting.Publish(ctx, tx, h.o.Tables.Inbox, event.SessionCreated, s.ID, s.ID, event.SourceEntry, s)
}
