package callables_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/core/entity"
	"lilac/internal/core/outbox"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/callables"
	"lilac/internal/serve/toolserver"
	"lilac/internal/serve/toolwire"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// chatPlatform is a platform with channels 10 (allowed, #ops), 11 (allowed by
// its server, not cached), 12 (not allowed), 20 (a private conversation) and 21
// (another one, not cached).
type chatPlatform struct {
	surface.Adapter
	can surface.Capabilities

	mu       sync.Mutex
	unclear  int // sends that are made and not answered
	sent     []surface.Send
	edited   []surface.Content
	deleted  []string
	reacted  []string
	existing map[string]surface.Message
}

func (p *chatPlatform) Platform() string                   { return "discord" }
func (p *chatPlatform) Capabilities() surface.Capabilities { return p.can }

func (p *chatPlatform) Allowed(_ context.Context, id string) (bool, error) {
	return slices.Contains([]string{"10", "11", "20", "21"}, id), nil
}

func (p *chatPlatform) Channel(_ context.Context, id string) (surface.Session, error) {
	kind := surface.Channel
	if id == "21" {
		kind = surface.Direct
	}
	return surface.Session{Platform: "discord", ChannelID: id, Kind: kind}, nil
}

func (p *chatPlatform) Send(_ context.Context, s surface.Send) (surface.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, s)
	if p.unclear > 0 {
		p.unclear--
		return surface.Message{}, fault.New(fault.Timeout, "no answer, made")
	}
	return surface.Message{ID: fmt.Sprint(900 + len(p.sent)), Text: s.Text, AuthorID: "1", FromSelf: true}, nil
}

func (p *chatPlatform) FindNonce(_ context.Context, _, nonce string, _ time.Time) (surface.Message, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.sent, func(s surface.Send) bool { return s.Nonce == nonce })
	return surface.Message{ID: fmt.Sprint(901 + i)}, i >= 0, nil
}

func (p *chatPlatform) Read(_ context.Context, ref event.MessageRef) (surface.Message, error) {
	if m, ok := p.existing[ref.MessageID]; ok {
		return m, nil
	}
	return surface.Message{}, fault.New(fault.NotFound, "There is no message %s.", ref.MessageID)
}

func (p *chatPlatform) Edit(_ context.Context, _ event.MessageRef, c surface.Content) error {
	p.edited = append(p.edited, c)
	return nil
}

func (p *chatPlatform) Delete(_ context.Context, ref event.MessageRef) error {
	p.deleted = append(p.deleted, ref.MessageID)
	return nil
}

func (p *chatPlatform) React(_ context.Context, ref event.MessageRef, emoji string) error {
	p.reacted = append(p.reacted, ref.MessageID+emoji)
	return nil
}

func (p *chatPlatform) Tell(context.Context, string, string, string) error { return nil }

func (p *chatPlatform) Unreact(_ context.Context, ref event.MessageRef, emoji string) error {
	p.reacted = append(p.reacted, "-"+ref.MessageID+emoji)
	return nil
}

func (p *chatPlatform) Reactions(context.Context, event.MessageRef) ([]surface.Reaction, error) {
	return []surface.Reaction{{Emoji: "👍", Count: 2, Mine: true}}, nil
}

// world is the callables over a real store, as a command reaches them.
type world struct {
	t         *testing.T
	db        *db.DB
	platform  *chatPlatform
	place     *callables.Platform
	flows     *workflow.Service
	server    *toolserver.Server
	operators *toolserver.Operators
	published []event.EnvEvent
	mu        sync.Mutex
	records   []toolserver.Record
}

func (w *world) Publish(_ context.Context, e event.EnvEvent) (bool, error) {
	fresh := !slices.ContainsFunc(w.published, func(o event.EnvEvent) bool { return o.ID == e.ID })
	w.published = append(w.published, e)
	return fresh, nil
}

// The callers of the tests: requests in a channel, a private conversation, two
// conversations of the page and the terminal, and one of a sub-agent.
var (
	inOps      = toolserver.Grant{RequestID: "discord:10:1", SessionID: "10", Client: "discord", Callables: []string{"*"}}
	inDM       = toolserver.Grant{RequestID: "discord:20:1", SessionID: "20", Client: "discord", Callables: []string{"*"}}
	inTerminal = toolserver.Grant{RequestID: "terminal:w2:1", SessionID: "w2", Client: "terminal", Callables: []string{"*"}}
	onWeb      = toolserver.Grant{RequestID: "web:w1:1", SessionID: "w1", Client: "web", Callables: []string{"*"}}
	asSub      = toolserver.Grant{RequestID: "sub:w1:1", SessionID: "sub-1", Client: "sub", Callables: []string{"*"}}
)

func newWorld(t *testing.T, set ...func(*callables.Platform)) *world {
	t.Helper()
	w := &world{t: t, platform: &chatPlatform{can: surface.Capabilities{Edit: true, Delete: true, Reactions: true, Replies: true, MaxText: 2000}}}
	w.platform.existing = map[string]surface.Message{"77": {Platform: "discord", ChannelID: "10", ID: "77", FromSelf: true, Text: "old"}}
	var err error
	if w.db, err = db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	events, err := sqlitebus.New(w.db, sqlitebus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = events.Close() })
	cache, tables := store.SurfaceCache{}, store.New(w.db)
	out := outbox.New(outbox.Options{DB: w.db, Table: store.Outbox{}, Adapter: w.platform, Hooks: map[string]outbox.OnSent{callables.HookName: callables.Remember(cache)}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = out.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	w.place = &callables.Platform{DB: w.db, Cache: cache, Adapter: w.platform, Outbox: out, Table: store.Outbox{}, Names: func(db.Queryer) *entity.Mapper {
		return entity.New(map[string]string{"ann": "5"}, map[string]string{"Ops": "10", "secret": "12", "release-room": "11"}, entity.Known{})
	}}
	for _, s := range set {
		s(w.place)
	}
	surfaces := callables.Surfaces{w.place, callables.Web{DB: w.db, Table: store.Conversations{}, Platforms: []string{"discord"}}}
	w.flows = workflow.New(workflow.Options{
		DB: w.db, Bus: events, Table: store.Workflows{}, Inbox: store.Inbox{}, Cache: cache,
		Check: func([]string, string) error { return nil },
	})
	w.flows.Connect("discord", workflow.Platform{Outbox: out})
	asker := func(context.Context, string) (string, error) { return "5", nil }
	w.operators = &toolserver.Operators{DB: w.db, Table: store.OperatorTokens{}}
	w.server, err = toolserver.New(toolserver.Options{
		Callables: slices.Concat(callables.Surface(surfaces), callables.Events(surfaces, w), callables.Workflow(surfaces, w.flows, asker)),
		Alive:     func(toolserver.Grant) bool { return true }, Operators: w.operators,
		Record: func(_ context.Context, r toolserver.Record) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.records = append(w.records, r)
			return nil
		},
	})
	if err == nil {
		err = w.server.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.fill(tables)
	return w
}

func (w *world) fill(tables *store.Store) {
	w.t.Helper()
	err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		cache := store.SurfaceCache{}
		for _, s := range []surface.Session{
			{ChannelID: "10", GuildID: "1", Kind: surface.Channel, Title: "operations"},
			{ChannelID: "12", GuildID: "2", Kind: surface.Channel, Title: "secret"},
			{ChannelID: "20", Kind: surface.Direct, Title: "ann"},
		} {
			s.Platform = "discord"
			if err := cache.PutSession(tx, s); err != nil {
				return err
			}
		}
		for _, m := range []surface.Message{
			{ChannelID: "10", ID: "100", AuthorID: "5", AuthorName: "Ann", Text: "the release <@5>"},
			{ChannelID: "10", ID: "101", AuthorID: "1", FromSelf: true, Text: "noted", ReplyTo: "100"},
			{ChannelID: "12", ID: "120", AuthorID: "6", Text: "a secret release"},
			{ChannelID: "20", ID: "200", AuthorID: "5", Text: "a private release"},
		} {
			m.Platform = "discord"
			if err := cache.PutMessage(tx, m); err != nil {
				return err
			}
		}
		for _, id := range []string{"w1", "w2"} {
			if err := tables.Sessions.CreateSession(tx, session.Session{ID: id, Client: map[string]string{"w1": "web", "w2": "terminal"}[id], Title: "of " + id}); err != nil {
				return err
			}
			if _, err := tables.History.AppendHistory(tx, id, session.HistoryMessage{ID: "m-" + id, Message: chat.Text(chat.User, "a release on the page of "+id)}); err != nil {
				return err
			}
		}
		return tables.History.IndexHistory(tx)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// call makes a call as a command with the grant does.
func (w *world) call(g toolserver.Grant, id, input string) toolwire.Answer {
	w.t.Helper()
	token, revoke, err := w.server.Mint(g)
	if err != nil {
		w.t.Fatal(err)
	}
	defer revoke()
	return w.with(token, id, input)
}

func (w *world) with(token, id, input string) (out toolwire.Answer) {
	w.t.Helper()
	r := httptest.NewRequest("POST", "http://localhost/call", strings.NewReader(fmt.Sprintf(`{"callableId":%q,"input":%s}`, id, input)))
	r.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(rec, r)
	body, _ := io.ReadAll(rec.Body)
	if err := json.Unmarshal(body, &out); err != nil {
		w.t.Fatalf("%s: %s", err, body)
	}
	return out
}

// text is what was answered: the value, or the kind and the sentence of the error.
func text(a toolwire.Answer) string {
	if a.Error != nil {
		return string(a.Error.Kind) + ": " + a.Error.Message
	}
	return string(a.Value)
}
