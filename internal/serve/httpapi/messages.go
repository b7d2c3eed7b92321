package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// HistoryTable stores the messages of conversations.
type HistoryTable interface {
	// ListMessages returns the newest limit messages before the message id before,
	// oldest first, of a span of time. A damaged message is replaced by one that says why.
	ListMessages(q db.Queryer, sessionID string, limit int, before string, in session.Span) ([]session.HistoryMessage, error)
	// IndexHistory brings the full-text index up to date.
	IndexHistory(tx *db.Tx) error
	// Search finds messages that contain all words of the query, newest first,
	// before a row; 0 begins with the newest row.
	Search(q db.Queryer, query string, limit int, before int64) ([]session.SearchResult, error)
}

// messages serves the history of a conversation.
type messages struct {
	db       *db.DB
	table    HistoryTable
	sessions *sessions
	requests *requests
	files    *files
	streams  *streams
	renderer *markdownRenderer
}

type messageList struct {
	Messages []json.RawMessage `json:"messages"`
	Files    []sessionFile     `json:"files"`
	Cursor   string            `json:"cursor"`
	Running  []string          `json:"running"`
	Replay   string            `json:"replay,omitempty"`
	// Waiting says why there is no cursor to follow the conversation from.
	Waiting string `json:"waiting,omitempty"`
}

func (m *messages) list(r *http.Request) (out messageList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	var in session.Span
	if in.From, err = numberOf(r, "startTime", 0, 0, math.MaxInt64); err != nil {
		return out, err
	}
	if in.Until, err = numberOf(r, "endTime", 0, 0, math.MaxInt64); err != nil {
		return out, err
	}
	withHTML, err := flagOf(r, "html")
	if err != nil {
		return out, err
	}
	withReplay, err := flagOf(r, "replay")
	if err != nil {
		return out, err
	}
	s, err := m.sessions.get(r)
	if err != nil {
		return out, err
	}
	// Positions are read before messages. Whatever happens in between is then
	// delivered twice, under the same ids, and not missed; see begunSince. While the bus is
	// unavailable, the stored messages can be read without a cursor.
	at, _, err := m.streams.startNow(r.Context(), s.ID)
	if fault.KindOf(err) == fault.Unavailable && !withReplay {
		out.Waiting, err = fault.ToWire(err).Message, nil
	}
	if err != nil {
		return out, err
	}
	var history []session.HistoryMessage
	err = m.db.Read(r.Context(), func(q db.Queryer) (err error) {
		if history, err = m.table.ListMessages(q, s.ID, limit, r.URL.Query().Get("before"), in); err != nil || out.Waiting == "" {
			return err
		}
		running, err := m.requests.table.Running(q, s.ID)
		at.Runs = nil
		for _, one := range running {
			at.Runs = append(at.Runs, runCursor{Request: one.ID})
		}
		return err
	})
	if err != nil {
		return out, err
	}
	out.Messages, out.Running = make([]json.RawMessage, 0, len(history)), []string{}
	for _, message := range history {
		raw, err := m.encode(r.Context(), message, withHTML)
		if err != nil {
			return out, err
		}
		out.Messages = append(out.Messages, raw)
	}
	for i := range at.Runs {
		at.Runs[i].After, at.Runs[i].Announce = "", true
		out.Running = append(out.Running, at.Runs[i].Request)
	}
	if out.Waiting == "" {
		begun, err := m.begunSince(r.Context(), at, history)
		if err != nil {
			return out, err
		}
		out.Running = append(out.Running, begun...)
	}
	if out.Files, err = m.files.of(r.Context(), s.ID, history, out.Running); err != nil {
		return out, err
	}
	if out.Waiting == "" {
		out.Cursor = at.String()
	}
	if withReplay {
		out.Replay, err = m.streams.replay(r.Context(), at)
	}
	return out, err
}

// begunSince returns the requests with a message in the history that began after the
// cursor. The stream brings their output from its beginning. A client that took them for
// ended would ignore the stream and never show their answers, or show them twice.
func (m *messages) begunSince(ctx context.Context, at cursor, history []session.HistoryMessage) (out []string, err error) {
	begun, err := m.streams.begunAfter(ctx, at.Req)
	if err != nil {
		return nil, err
	}
	for _, message := range history {
		if begun[message.RequestID] {
			out = append(out, message.RequestID)
			delete(begun, message.RequestID)
		}
	}
	return out, nil
}

// encode writes a ModelMessage with the fields id, requestId and createdAt added.
func (m *messages) encode(ctx context.Context, stored session.HistoryMessage, withHTML bool) (json.RawMessage, error) {
	msg := stored.Message
	fields := map[string]any{"id": stored.ID, "requestId": stored.RequestID, "createdAt": stored.CreatedAt}
	if stored.Damaged {
		fields["damaged"] = true
	}
	if withHTML && (msg.Role == chat.Assistant || msg.Role == chat.User) {
		html, err := m.renderer.render(ctx, msg.Text())
		if err != nil {
			return nil, err
		}
		fields["html"] = html
	}
	msg.Extra = maps.Clone(msg.Extra)
	if msg.Extra == nil {
		msg.Extra = map[string]json.RawMessage{}
	}
	for name, v := range fields {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "The message could not be encoded.")
		}
		msg.Extra[name] = raw
	}
	raw, err := json.Marshal(msg)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "The message could not be encoded.")
	}
	return raw, nil
}
