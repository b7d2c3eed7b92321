package app

import (
	"context"
	"encoding/json"
	"fmt"

	"lilac/internal/chat"
	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/session"
	"lilac/internal/store"
	"lilac/internal/toolserver"
)

// surfaceMessage is a message as the callables show it.
type surfaceMessage struct {
	SessionID string    `json:"sessionId"`
	MessageID string    `json:"messageId"`
	RequestID string    `json:"requestId,omitempty"`
	Role      chat.Role `json:"role"`
	Text      string    `json:"text"`
	CreatedAt int64     `json:"createdAt"`
}

// surfaceSession is a conversation as the callables show it.
type surfaceSession struct {
	ChannelID string `json:"channelId"`
	Kind      string `json:"kind"`
	Title     string `json:"title,omitempty"`
}

// webSurface reads the conversations of the page and the terminal.
type webSurface struct {
	db    *db.DB
	store *store.Store
}

// own is the session that a caller names, or its own when it names none.
func own(caller toolserver.Caller, sessionID string) (string, error) {
	if sessionID == "" {
		sessionID = caller.SessionID
	}
	if !caller.May(sessionID) {
		return "", fault.New(fault.Denied, "The session %q is not yours to read: of private conversations a command reads only its own, %q.", sessionID, caller.SessionID)
	}
	return sessionID, nil
}

func (w webSurface) session(ctx context.Context, id string) (out session.Session, err error) {
	err = w.db.Read(ctx, func(q db.Queryer) error {
		out, err = w.store.Session(q, id)
		return err
	})
	return out, err
}

func (w webSurface) messages(ctx context.Context, id, before string, limit int) ([]surfaceMessage, error) {
	var history []session.HistoryMessage
	err := w.db.Read(ctx, func(q db.Queryer) (err error) {
		history, err = w.store.Messages(q, id, limit, before)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list messages: %w", err)
	}
	out := []surfaceMessage{}
	for _, m := range history {
		if m.Message.Role != chat.Tool {
			out = append(out, surfaceMessage{id, m.ID, m.RequestID, m.Message.Role, m.Message.Text(), m.CreatedAt})
		}
	}
	return out, nil
}

// surfaceInput is what the callables of surfaces take.
type surfaceInput struct {
	SessionID string `json:"sessionId"`
	Before    string `json:"before"`
	Limit     int    `json:"limit"`
}

func surfaceCallables(web webSurface) []toolserver.Callable {
	return []toolserver.Callable{
		{
			ID: "surface.sessions.list", Summary: "Lists the conversations that this command may read", Repeatable: true,
			Examples: []string{"tools surface.sessions.list --output=json"},
			Schema:   `{"type":"object","properties":{}}`,
			Run: func(ctx context.Context, caller toolserver.Caller, _ json.RawMessage) (any, error) {
				s, err := web.session(ctx, caller.SessionID)
				if err != nil {
					return nil, err
				}
				return []surfaceSession{{ChannelID: s.ID, Kind: "dm", Title: s.Title}}, nil
			},
		},
		{
			ID: "surface.messages.list", Summary: "Lists the messages of a conversation, oldest first", Repeatable: true,
			Examples: []string{"tools surface.messages.list --limit=20", "tools surface.messages.list --before=MESSAGE_ID --output=json"},
			Schema: `{"type":"object","properties":{
"sessionId":{"type":"string","description":"The conversation; the command's own when left out."},
"before":{"type":"string","description":"The id of a message; older ones are listed."},
"limit":{"type":"integer","minimum":1,"maximum":200,"default":50,"description":"How many of the newest entries are looked at."}}}`,
			Run: func(ctx context.Context, caller toolserver.Caller, input json.RawMessage) (any, error) {
				var in surfaceInput
				if err := json.Unmarshal(input, &in); err != nil {
					return nil, fmt.Errorf("read input: %w", err)
				}
				id, err := own(caller, in.SessionID)
				if err != nil {
					return nil, err
				}
				return web.messages(ctx, id, in.Before, in.Limit)
			},
		},
	}
}
