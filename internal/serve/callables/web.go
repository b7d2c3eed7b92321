package callables

import (
	"context"
	"fmt"
	"slices"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Conversations reads the sessions and messages of the page and the terminal. Package
// store implements it. An unknown id is a fault.NotFound.
type Conversations interface {
	Session(q db.Queryer, id string) (session.Session, error)
	// SessionsWithout lists the sessions of all other clients, most recently updated
	// first.
	SessionsWithout(q db.Queryer, clients []string, limit int) ([]session.Session, error)
	// Messages lists the newest limit messages before one ("" for all), oldest
	// first.
	Messages(q db.Queryer, sessionID string, limit int, before string) ([]session.HistoryMessage, error)
	Message(q db.Queryer, sessionID, id string) (session.HistoryMessage, error)
	// SearchIn finds messages with all words of a query, newest first. The session ""
	// means every session except those of some clients. It finds the messages that
	// existed when IndexHistory was last called.
	SearchIn(q db.Queryer, sessionID string, without []string, query string, limit int) ([]session.SearchResult, error)
	IndexHistory(tx *db.Tx) error
}

// leastRead is the smallest page to read: many results of tools can be between two
// messages of people.
const leastRead = 50

// maxSessions bounds a list of conversations.
const maxSessions = 200

// Web is the surface of the page, the terminal and other clients of the API: of all
// conversations that are on no platform. They are private: a caller reads its own, an
// operator all of them. It is no [Writer], because the agent's answer appears there
// without a callable.
type Web struct {
	DB    *db.DB
	Table Conversations
	// Platforms lists the clients whose conversations belong to platforms.
	Platforms []string
}

var _ Reader = Web{}

// Client implements [Reader].
func (Web) Client() string { return "web" }

// Serves implements [Reader].
func (w Web) Serves(client string) bool { return !slices.Contains(w.Platforms, client) }

// Find implements [Reader].
func (w Web) Find(ctx context.Context, form string) (string, error) {
	var s session.Session
	err := w.DB.Read(ctx, func(q db.Queryer) (err error) {
		s, err = w.Table.Session(q, form)
		return err
	})
	if err == nil && !w.Serves(s.Client) {
		return "", fault.New(fault.NotFound, "There is no session %q.", form)
	}
	return s.ID, err
}

// Sessions implements [Reader].
func (w Web) Sessions(ctx context.Context, caller toolserver.Caller) (out []Session, err error) {
	var all []session.Session
	err = w.DB.Read(ctx, func(q db.Queryer) error {
		if caller.Operator != "" {
			all, err = w.Table.SessionsWithout(q, w.Platforms, maxSessions)
			return err
		}
		if !w.Serves(caller.Client) {
			return nil
		}
		own, err := w.Table.Session(q, caller.SessionID)
		all = []session.Session{own}
		return err
	})
	for _, s := range all {
		out = append(out, Session{ChannelID: s.ID, Kind: surface.Direct, Title: s.Title, Client: s.Client})
	}
	return out, err
}

// Messages implements [Reader].
func (w Web) Messages(ctx context.Context, caller toolserver.Caller, sessionID, before string, limit int) ([]Message, error) {
	if err := private(caller, sessionID); err != nil {
		return nil, err
	}
	out := []Message{}
	err := w.DB.Read(ctx, func(q db.Queryer) error {
		for len(out) < limit {
			page, err := w.Table.Messages(q, sessionID, max(limit, leastRead), before)
			if err != nil || len(page) == 0 {
				return err
			}
			before = page[0].ID
			// Results of tools are not messages.
			for i := len(page) - 1; i >= 0 && len(out) < limit; i-- {
				if page[i].Message.Role != chat.Tool {
					out = append(out, webMessage(sessionID, page[i]))
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	slices.Reverse(out)
	return out, nil
}

// Message implements [Reader].
func (w Web) Message(ctx context.Context, caller toolserver.Caller, ref event.MessageRef) (Message, error) {
	if err := private(caller, ref.ChannelID); err != nil {
		return Message{}, err
	}
	var m session.HistoryMessage
	err := w.DB.Read(ctx, func(q db.Queryer) (err error) {
		m, err = w.Table.Message(q, ref.ChannelID, ref.MessageID)
		return err
	})
	return webMessage(ref.ChannelID, m), err
}

// Search implements [Reader].
func (w Web) Search(ctx context.Context, caller toolserver.Caller, sessionID, query string, limit int) (out []Message, err error) {
	if sessionID == "" && caller.Operator == "" {
		if !w.Serves(caller.Client) {
			return nil, nil
		}
		sessionID = caller.SessionID
	}
	if sessionID != "" {
		if err := private(caller, sessionID); err != nil {
			return nil, err
		}
	}
	if err := w.DB.UpdateRelaxed(ctx, w.Table.IndexHistory); err != nil {
		return nil, err
	}
	var found []session.SearchResult
	err = w.DB.Read(ctx, func(q db.Queryer) (err error) {
		found, err = w.Table.SearchIn(q, sessionID, w.Platforms, query, limit)
		return err
	})
	for _, f := range found {
		out = append(out, Message{SessionID: f.SessionID, MessageID: f.MessageID, RequestID: f.RequestID, Role: f.Role, Text: f.Excerpt, CreatedAt: f.CreatedAt})
	}
	return out, err
}

func webMessage(sessionID string, m session.HistoryMessage) Message {
	return Message{
		SessionID: sessionID, MessageID: m.ID, RequestID: m.RequestID, Role: string(m.Message.Role), Self: m.Message.Role == chat.Assistant,
		Text: m.Message.Text(), CreatedAt: m.CreatedAt,
	}
}

// private refuses a private conversation that is not the caller's.
func private(caller toolserver.Caller, sessionID string) error {
	if caller.May(sessionID) {
		return nil
	}
	return fault.New(fault.Denied, "The session %s is private: a command may use only its own, %q.", sessionID, caller.SessionID)
}
