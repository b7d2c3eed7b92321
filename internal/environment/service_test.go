package environment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/environment"
	"lilac/internal/event"
	"lilac/internal/sqlitebus"
	"lilac/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox is a table of its own, so that what is tested here is only this package.
type inbox struct{}

func (inbox) Seen(tx *db.Tx, source, id string, value []byte) ([]byte, bool, error) {
	var prior []byte
	if tx.QueryRow("SELECT value FROM test_inbox WHERE id = ?", source+"/"+id).Scan(&prior) == nil {
		return prior, true, nil
	}
	_, err := tx.Exec("INSERT INTO test_inbox (id, value) VALUES (?, ?)", source+"/"+id, value)
	return nil, false, err
}

// forgetful is an inbox that remembers nothing: the control.
type forgetful struct{}

func (forgetful) Seen(*db.Tx, string, string, []byte) ([]byte, bool, error) { return nil, false, nil }

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is a database with a bus and, once started, the service on it.
type world struct {
	t    *testing.T
	dir  string
	db   *db.DB
	bus  *sqlitebus.Bus
	log  logBuffer
	svc  *environment.Service
	stop func()
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	migrations := append([]db.Migration{{Name: "test", SQL: "CREATE TABLE test_inbox (id TEXT PRIMARY KEY, value BLOB) STRICT;"}}, slices.Concat(sqlitebus.Migrations, store.Migrations)...)
	var err error
	if w.db, err = db.Open(context.Background(), db.Options{Dir: w.dir, Migrations: migrations}); err != nil {
		w.t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	if err := errors.Join(w.bus.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

func (w *world) store() *store.Store { return store.New(w.db) }

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(&w.log, nil)) }

// sessions knows every session but the one that is gone.
var sessions = environment.Sessions{
	Client: func(_ db.Queryer, id string) (string, bool, error) { return "web", id != "gone", nil },
	Titled: func(_ db.Queryer, title string) (string, error) { return "titled-" + title, nil },
}

func (w *world) start(box environment.Inbox, rules ...environment.Rule) {
	w.t.Helper()
	w.svc = environment.New(environment.Options{DB: w.db, Bus: w.bus, Inbox: box, Records: w.store(), Session: sessions, Rules: rules, Logger: w.logger()})
	ctx, cancel := context.WithCancel(context.Background())
	if err := w.svc.Declare(ctx); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.svc.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) publish(e event.EnvEvent) bool {
	w.t.Helper()
	fresh, err := w.svc.Publish(context.Background(), e)
	if err != nil {
		w.t.Fatal(err)
	}
	return fresh
}

func (w *world) defaults() []environment.Rule {
	return environment.DefaultRules(environment.Ports{DB: w.db, Logger: w.logger(), Session: sessions})
}

func (w *world) commands(n int) []event.Event {
	w.t.Helper()
	var out []event.Event
	eventually(w.t, fmt.Sprintf("%d commands for the runner", n), func() bool {
		found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 100)
		if err != nil {
			w.t.Fatal(err)
		}
		out = nil
		for _, d := range found {
			out = append(out, d.Event)
		}
		return len(out) >= n
	})
	return out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: did not happen", what)
}

func query(id, session string, q event.UserQueryPayload) event.EnvEvent {
	q.SessionID = session
	raw, _ := json.Marshal(q)
	return event.EnvEvent{ID: id, Type: event.UserQuery, Metadata: event.EnvMetadata{TriggerSessionID: session, Source: "user"}, Payload: raw}
}

func custom(id, session string) event.EnvEvent {
	return event.EnvEvent{ID: id, Type: "custom.x", Metadata: event.EnvMetadata{TriggerSessionID: session}}
}

// collect is a rule whose handler tells what it was called with.
func collect(types ...string) (environment.Rule, <-chan event.EnvEvent) {
	got := make(chan event.EnvEvent, 1000)
	r := rule("collect", 1, types...)
	r.Handler = func(_ context.Context, _ bus.Delivery, e event.EnvEvent) error { got <- e; return nil }
	return r, got
}

func next(t *testing.T, got <-chan event.EnvEvent) event.EnvEvent {
	t.Helper()
	select {
	case e := <-got:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event was handled")
		return event.EnvEvent{}
	}
}

func TestPublish(t *testing.T) {
	t.Run("publish_success, function_handler", func(t *testing.T) {
		w := newWorld(t)
		r, got := collect("custom.*")
		w.start(inbox{}, r)
		e := custom("1", "s")
		e.Payload = []byte(`{"n":1}`)
		e.Metadata.Extra = map[string]json.RawMessage{"more": []byte("[1]")}
		if !w.publish(e) {
			t.Error("a new event was dropped")
		}
		have := next(t, got)
		if have.ID != "1" || string(have.Payload) != `{"n":1}` || string(have.Metadata.Extra["more"]) != "[1]" || have.Timestamp == 0 {
			t.Errorf("the handler got %+v", have)
		}
	})
	t.Run("publish_idempotency", func(t *testing.T) {
		twice := func(box environment.Inbox) int {
			w := newWorld(t)
			r, got := collect("*")
			w.start(box, r)
			w.publish(custom("1", "s"))
			next(t, got)
			w.close() // also after a restart
			w.open()
			w.start(box, r)
			// The log forgets by age, so only the inbox knows the id for ever.
			w.publish(func() event.EnvEvent { e := custom("1", "s"); e.Metadata.TriggerSessionID = "s2"; return e }())
			w.publish(custom("end", "s"))
			n := 0
			for next(t, got).ID != "end" {
				n++
			}
			return n
		}
		if n := twice(inbox{}); n != 0 {
			t.Errorf("the second publish was handled %d times", n)
		}
	})
	t.Run("publish_idempotency control", func(t *testing.T) {
		w := newWorld(t)
		w.start(forgetful{})
		w.publish(custom("1", "s"))
		if !w.publish(custom("1", "s")) {
			t.Error("without the inbox a repeated id is dropped, too: the test shows nothing")
		}
	})
	t.Run("publish_unknown_type", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()[0]) // the fallback would match
		w.publish(custom("lonely", "s"))
		eventually(t, "a warning", func() bool {
			return strings.Contains(w.log.String(), "no rule matched") && strings.Contains(w.log.String(), "lonely")
		})
		letters, err := w.bus.DeadLetters(context.Background(), "", 10)
		if err != nil || len(letters) > 0 {
			t.Errorf("dead letters %v, %v", letters, err)
		}
	})
	t.Run("bad events are refused", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{})
		for _, e := range []event.EnvEvent{
			{Type: "custom.x"},
			{ID: "1", Type: "Bad Type"},
			{ID: "1", Type: event.CmdRequestMessage},
			{ID: "1", Type: "custom.x", Payload: []byte("{")},
		} {
			if _, err := w.svc.Publish(context.Background(), e); err == nil {
				t.Errorf("%+v was taken", e)
			}
		}
	})
}

func TestQueue(t *testing.T) {
	t.Run("queue_processing, queue_prevents_concurrent", func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		running, overlaps := 0, 0
		got := make(chan string, 100)
		r := rule("slow", 1, "*")
		r.Handler = func(_ context.Context, _ bus.Delivery, e event.EnvEvent) error {
			mu.Lock()
			if running++; running > 1 {
				overlaps++
			}
			mu.Unlock()
			got <- e.ID
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}
		w.start(inbox{}, r)
		const n = 50
		for i := range n {
			w.publish(custom(fmt.Sprintf("%02d", i), "s"))
		}
		for i := range n {
			select {
			case id := <-got:
				if id != fmt.Sprintf("%02d", i) {
					t.Fatalf("event %s came as number %d", id, i)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("an event is missing")
			}
		}
		if overlaps > 0 {
			t.Errorf("%d events of one session were handled side by side", overlaps)
		}
	})
	for name, fail := range map[string]func() error{
		"a failing handler is retried and the bus goes on":   func() error { return errors.New("no") },
		"a panicking handler is retried and the bus goes on": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			attempts := 0
			got := make(chan int, 10)
			r := rule("flaky", 1, "custom.*")
			r.Handler = func(context.Context, bus.Delivery, event.EnvEvent) error {
				if attempts++; attempts < 2 {
					return fail()
				}
				got <- attempts
				return nil
			}
			w.start(inbox{}, r)
			w.publish(custom("1", "s"))
			select {
			case n := <-got:
				if n != 2 {
					t.Errorf("handled at attempt %d", n)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it was not retried")
			}
		})
	}
}

func TestDefaultRules(t *testing.T) {
	t.Run("user_query_rule_handles", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		files := json.RawMessage(`[{"type":"file","data":"blob:sha256:00","mediaType":"text/plain","filename":"a.txt"}]`)
		w.publish(query("q1", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Queue: event.Prompt, Client: "web"}))
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "more", RequestID: "web:s:m1", ElseRequestID: "web:s:m2", MessageID: "m2", Queue: event.Steer, Client: "web", Attachments: files}))
		all := w.commands(2)
		want := []string{
			`{"queue":"prompt","messages":[{"role":"user","content":"hi"}],"messageId":"m1"}`,
			`{"queue":"steer","messages":[{"role":"user","content":[{"type":"text","text":"more"},{"type":"file","data":"blob:sha256:00","filename":"a.txt","mediaType":"text/plain"}]}],"messageId":"m2","elseRequestId":"web:s:m2","anyActive":true}`,
		}
		for i, e := range all {
			if diff := cmp.Diff(want[i], string(e.Data)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(event.RequestHeaders("web:s:m1", "s", "web"), e.Headers); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("an unknown session buys nothing", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		w.publish(query("q1", "gone", event.UserQueryPayload{Content: "hi", RequestID: "web:gone:m1", MessageID: "m1", Client: "web"}))
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		if all := w.commands(1); len(all) != 1 || all[0].Lane != "s" {
			t.Errorf("commands %v", all)
		}
		eventually(t, "a warning", func() bool { return strings.Contains(w.log.String(), "unknown session") })
	})
	t.Run("a malformed user_query is set aside at once", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		bad := query("q1", "s", event.UserQueryPayload{})
		bad.Payload = []byte(`{"content":7}`)
		w.publish(bad)
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		w.commands(1)
		letters, err := w.bus.DeadLetters(context.Background(), "", 10)
		if err != nil || len(letters) != 1 || letters[0].Event.ID != "q1" || letters[0].Attempts != 1 {
			t.Errorf("dead letters %+v, %v; want q1 after one attempt", letters, err)
		}
	})
	t.Run("session_rule_logs", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		w.publish(event.EnvEvent{ID: "c1", Type: event.SessionCreated, Metadata: event.EnvMetadata{TriggerSessionID: "s"}})
		eventually(t, "a line in the log", func() bool { return strings.Contains(w.log.String(), "session event") })
	})
	t.Run("what was published before the start is handled", func(t *testing.T) {
		w := newWorld(t)
		w.svc = environment.New(environment.Options{DB: w.db, Bus: w.bus, Inbox: inbox{}})
		w.publish(query("q1", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		w.start(inbox{}, w.defaults()...)
		w.commands(1)
	})
}
