package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"

	"github.com/oklog/ulid/v2"
)

// maxTitle is in runes: a line in a list, not a text.
const maxTitle = 200

// A client is the first part of request ids, which a colon ends.
var clientName = lazyregexp.New(`^[a-z][a-z0-9_-]{0,31}$`)

// ownClients begin the ids of requests that the program itself makes.
var ownClients = []string{task.Client, workflow.Surface, environment.Surface}

var errNoSessions = &fault.Error{Kind: fault.Unavailable, Code: "no_sessions", Message: "Sessions are not available on this server."}

func (a *api) needSessions() error {
	if a.Store == nil {
		return errNoSessions
	}
	return nil
}

func (a *api) createSession(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	in := struct {
		Title  string `json:"title"`
		Client string `json:"client"`
	}{Client: "web"}
	if err := decode(body, &in, true); err != nil {
		return err
	}
	in.Title = text.SingleLine(in.Title)
	if utf8.RuneCountInString(in.Title) > maxTitle {
		return fault.InvalidField("title", "A title has at most %d characters.", maxTitle)
	}
	if !clientName().MatchString(in.Client) {
		return fault.InvalidField("client", "A client is 1 to 32 characters a-z, 0-9, _ and -, and begins with a letter.")
	}
	if slices.Contains(slices.Concat(ownClients, a.Platforms), in.Client) {
		f := fault.InvalidField("client", "Conversations of the client %s do not begin here; choose another name.", in.Client)
		f.Code = "client_taken"
		return f
	}
	now := a.Now().UnixMilli()
	s := session.Session{ID: newID(), Client: in.Client, Title: in.Title, CreatedAt: now, UpdatedAt: now, State: "idle"}
	err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
		if err := a.Store.CreateSession(tx, s); err != nil {
			return err
		}
		return a.announce(tx, event.SessionCreated, s.ID, s)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/sessions/"+s.ID)
	return writeJSON(w, http.StatusCreated, s)
}

// announce publishes what happened to a session in the transaction that did
// it, once for each type and name.
func (a *api) announce(tx *db.Tx, t event.Type, once string, s session.Session) error {
	payload, err := json.Marshal(s)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "The session could not be encoded.")
	}
	_, err = environment.Publish(tx, a.Store, event.EnvEvent{
		ID:       string(t) + ":" + once,
		Type:     t,
		Metadata: event.EnvMetadata{TriggerSessionID: s.ID, Source: "user"},
		Payload:  payload,
	})
	return err
}

func (a *api) listSessions(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	if err := onlyQuery(r, "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	out := struct {
		Sessions []session.Session `json:"sessions"`
		Next     string            `json:"next,omitempty"`
	}{}
	err = a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
		out.Sessions, err = a.Store.Sessions(q, limit+1, r.URL.Query().Get("before"))
		return err
	})
	if err != nil {
		return err
	}
	out.Sessions, out.Next = pageOf(out.Sessions, limit, func(s session.Session) string { return session.PageToken(s.UpdatedAt, s.ID) })
	return writeJSON(w, http.StatusOK, out)
}

func (a *api) sessionOf(r *http.Request) (s session.Session, err error) {
	if err := a.needSessions(); err != nil {
		return s, err
	}
	err = a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
		s, err = a.Store.Session(q, r.PathValue("id"))
		return err
	})
	return s, err
}

func (a *api) getSession(w http.ResponseWriter, r *http.Request) error {
	s, err := a.sessionOf(r)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s)
}

func (a *api) renameSession(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var in struct {
		Title string `json:"title"`
	}
	if err := decode(body, &in, false); err != nil {
		return err
	}
	title := text.SingleLine(in.Title)
	if n := utf8.RuneCountInString(title); n == 0 || n > maxTitle {
		return fault.InvalidField("title", "A title has 1 to %d characters.", maxTitle)
	}
	var s session.Session
	err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
		if _, err := a.Store.Session(tx, r.PathValue("id")); err != nil {
			return err
		}
		if err := a.Store.SetTitle(tx, r.PathValue("id"), title); err != nil {
			return err
		}
		if s, err = a.Store.Session(tx, r.PathValue("id")); err != nil {
			return err
		}
		return a.announce(tx, event.SessionUpdated, s.ID+":"+newID(), s)
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s)
}

func (a *api) deleteSession(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	err := a.DB.Update(r.Context(), func(tx *db.Tx) error {
		s, err := a.Store.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		if s.ActiveRequest != "" {
			return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "The conversation is at work. Stop it first, then delete it."}
		}
		if err := a.Store.DeleteSession(tx, s.ID); err != nil {
			return err
		}
		return a.announce(tx, event.SessionDeleted, s.ID, s)
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *api) listMessages(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "limit", "before", "html", "replay"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	withHTML, err := flagOf(r, "html")
	if err != nil {
		return err
	}
	withReplay, err := flagOf(r, "replay")
	if err != nil {
		return err
	}
	s, err := a.sessionOf(r)
	if err != nil {
		return err
	}
	// Positions before messages: what happens in between is then seen twice,
	// under the same ids, instead of not at all. What is stored can be read
	// without them, while the bus is away.
	at, _, err := a.startNow(r.Context(), s.ID)
	waiting := ""
	if fault.KindOf(err) == fault.Unavailable && !withReplay {
		waiting, err = fault.ToWire(err).Message, nil
	}
	if err != nil {
		return err
	}
	var history []session.HistoryMessage
	err = a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
		if history, err = a.Store.ListMessages(q, s.ID, limit, r.URL.Query().Get("before")); err != nil || waiting == "" {
			return err
		}
		running, err := a.Store.Running(q, s.ID)
		at.Runs = nil
		for _, one := range running {
			at.Runs = append(at.Runs, runCursor{Request: one.ID})
		}
		return err
	})
	if err != nil {
		return err
	}
	out := struct {
		Messages []json.RawMessage `json:"messages"`
		Files    []sessionFile     `json:"files"`
		Cursor   string            `json:"cursor"`
		Running  []string          `json:"running"`
		Replay   string            `json:"replay,omitempty"`
		// Waiting says why there is no cursor to follow the conversation from.
		Waiting string `json:"waiting,omitempty"`
	}{Messages: make([]json.RawMessage, 0, len(history)), Running: []string{}, Waiting: waiting}
	for _, m := range history {
		raw, err := a.encodeMessage(r.Context(), m, withHTML)
		if err != nil {
			return err
		}
		out.Messages = append(out.Messages, raw)
	}
	for i := range at.Runs {
		at.Runs[i].After, at.Runs[i].Announce = "", true
		out.Running = append(out.Running, at.Runs[i].Request)
	}
	if out.Files, err = a.filesOf(r.Context(), s.ID, history, out.Running); err != nil {
		return err
	}
	if waiting == "" {
		out.Cursor = at.String()
	}
	if withReplay {
		if out.Replay, err = a.replay(r.Context(), at); err != nil {
			return err
		}
	}
	return writeJSON(w, http.StatusOK, out)
}

// encodeMessage writes the ModelMessage with our fields beside its own.
func (a *api) encodeMessage(ctx context.Context, m session.HistoryMessage, withHTML bool) (json.RawMessage, error) {
	msg := m.Message
	extra := maps.Clone(msg.Extra)
	if extra == nil {
		extra = map[string]json.RawMessage{}
	}
	put := func(name string, v any) error {
		raw, err := json.Marshal(v)
		extra[name] = raw
		return err
	}
	fields := map[string]any{"id": m.ID, "requestId": m.RequestID, "createdAt": m.CreatedAt}
	if m.Damaged {
		fields["damaged"] = true
	}
	for name, v := range fields {
		if err := put(name, v); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "The message could not be encoded.")
		}
	}
	if withHTML && (msg.Role == chat.Assistant || msg.Role == chat.User) {
		html, err := a.renderMarkdown(ctx, msg.Text())
		if err != nil {
			return nil, err
		}
		if err := put("html", html); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "The message could not be rendered.")
		}
	}
	msg.Extra = extra
	raw, err := json.Marshal(msg)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "The message could not be encoded.")
	}
	return raw, nil
}

// newID mints an id that sorts by time and has no colon in it.
func newID() string { return strings.ToLower(ulid.Make().String()) }
