package callables_test

import (
	"fmt"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/store"
)

// say adds a conversation of a client, and what was said in it last.
func (w *world) say(client, sessionID string, roles ...chat.Role) {
	w.t.Helper()
	tables := store.New(w.db)
	err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		if err := tables.Sessions.CreateSession(tx, session.Session{ID: sessionID, Client: client, UpdatedAt: tx.Now().UnixMilli()}); err != nil {
			return err
		}
		for i, role := range roles {
			m := chat.Text(role, fmt.Sprintf("a release, %s %d of %s", role, i, sessionID))
			if role == chat.Tool {
				m = chat.Message{Role: role, Parts: []chat.Part{chat.ToolResult("c", "bash", "a release", false)}}
			}
			if _, err := tables.History.AppendHistory(tx, sessionID, session.HistoryMessage{ID: fmt.Sprintf("%s-%d", sessionID, i), Message: m}); err != nil {
				return err
			}
		}
		return tables.History.IndexHistory(tx)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// operator returns a token for all that concerns conversations.
func (w *world) operator() string {
	w.t.Helper()
	token, err := w.operators.Create(w.t.Context(), "laptop", []string{"surface.*"}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

// The runner's history of a platform's conversations is not the page's: what
// may be read of those, the platform decides.
func TestASearchOfAnOperatorKeepsClosedChannelsClosed(t *testing.T) {
	w := newWorld(t)
	w.say("discord", "12", chat.User, chat.Assistant)
	w.say("discord", "10", chat.User, chat.Assistant)
	token := w.operator()
	got := text(w.with(token, "surface.messages.search", `{"query":"release"}`))
	for _, want := range []string{`"messageId":"100"`, "a private release", "page of w1", "page of w2"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not found: %s", want, got)
		}
	}
	for _, no := range []string{"of 12", "secret", "of 10"} {
		if strings.Contains(got, no) {
			t.Errorf("%q is found: %s", no, got)
		}
	}
	if got := text(w.with(token, "surface.sessions.list", `{}`)); strings.Contains(got, `"12"`) {
		t.Errorf("a closed channel is listed: %s", got)
	}
}

func TestASearchFindsWhatWasJustSaid(t *testing.T) {
	w := newWorld(t)
	tables := store.New(w.db)
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tables.History.AppendHistory(tx, "w1", session.HistoryMessage{ID: "late", Message: chat.Text(chat.User, "the zebra is late")})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := text(w.call(onWeb, "surface.messages.search", `{"query":"zebra"}`)); !strings.Contains(got, `"late"`) {
		t.Errorf("it is not found: %s", got)
	}
}

func TestASearchOfSeveralSurfacesKeepsToItsLimit(t *testing.T) {
	w := newWorld(t)
	if got := text(w.call(onWeb, "surface.messages.search", `{"query":"release","limit":1}`)); strings.Count(got, `"messageId"`) != 1 {
		t.Errorf("one was asked for: %s", got)
	}
}

// Every thread is a conversation: there are soon many.
func TestASearchEverywhereCoversHoweverManyConversations(t *testing.T) {
	w := newWorld(t)
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 600 {
			s := surface.Session{Platform: "discord", ChannelID: fmt.Sprint(5000 + i), Kind: surface.Direct, UpdatedAt: int64(i)}
			if err := (store.SurfaceCache{}).PutSession(tx, s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	token := w.operator()
	if got := text(w.with(token, "surface.messages.search", `{"query":"release"}`)); !strings.Contains(got, `"messageId":"100"`) {
		t.Errorf("it is not found: %s", got)
	}
}

// What tools answered is not told as a message, and must not take the place of one.
func TestAListHasAsManyMessagesAsWereAskedFor(t *testing.T) {
	w := newWorld(t)
	w.say("web", "w3", chat.User, chat.Tool, chat.User, chat.Tool, chat.Tool, chat.Tool)
	inW3 := onWeb
	inW3.RequestID, inW3.SessionID = "web:w3:1", "w3"
	for input, want := range map[string]string{
		`{"limit":1}`:                  "w3-2",
		`{"limit":2}`:                  "w3-0 w3-2",
		`{"limit":50}`:                 "w3-0 w3-2",
		`{"limit":1,"before":"w3-2"}`:  "w3-0",
		`{"limit":50,"before":"w3-0"}`: "",
	} {
		var ids []string
		for _, part := range strings.Split(text(w.call(inW3, "surface.messages.list", input)), `"messageId":"`)[1:] {
			id, _, _ := strings.Cut(part, `"`)
			ids = append(ids, id)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", input, got, want)
		}
	}
}

// However many conversations of a platform were used since.
func TestAnOperatorIsToldOfThePagesConversations(t *testing.T) {
	w := newWorld(t)
	tables := store.New(w.db)
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error {
		for i := range 250 {
			if err := tables.Sessions.CreateSession(tx, session.Session{ID: fmt.Sprint("d", i), Client: "discord", UpdatedAt: tx.Now().UnixMilli()}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	token := w.operator()
	if got := text(w.with(token, "surface.sessions.list", `{}`)); !strings.Contains(got, `"w1"`) || !strings.Contains(got, `"w2"`) || strings.Contains(got, `"d1"`) {
		t.Errorf("%.500s", got)
	}
}
