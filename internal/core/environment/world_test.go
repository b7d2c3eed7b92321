package environment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/core/environment"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Engines(m)) }

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

// world is a database with a bus and, once started, the service on it.
type world struct {
	t    *testing.T
	dir  string
	db   *db.DB
	bus  *sqlitebus.Bus
	log  logtest.Log
	svc  *environment.Service
	stop func()
	// ahead is by how much the clock is wrong.
	ahead atomic.Int64
	// stuck says that nothing can be done in the session that is called so.
	stuck atomic.Bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) open() {
	w.t.Helper()
	migrations := append([]db.Migration{{Name: "test", SQL: "CREATE TABLE test_inbox (id TEXT PRIMARY KEY, value BLOB) STRICT;"}}, slices.Concat(sqlitebus.Migrations, store.Migrations)...)
	var err error
	if w.db, err = db.Open(context.Background(), dbtest.Options(db.Options{Dir: w.dir, Migrations: migrations, Now: w.now})); err != nil {
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

// sessions knows every session but the one that is gone, and every title but
// those that begin so.
var sessions = environment.Sessions{
	Client: func(_ db.Queryer, id string) (string, bool, error) { return "web", id != "gone", nil },
	Titled: func(_ db.Queryer, title string) (string, error) {
		switch {
		case strings.HasPrefix(title, "gone"):
			return "", nil
		case title == "#twins":
			return "", fault.New(fault.Conflict, "#twins can be each of these: 1, 2.")
		}
		return "titled-" + title, nil
	},
}

func (w *world) start(box environment.Inbox, rules ...environment.Rule) {
	w.t.Helper()
	workspace := filepath.Join(w.dir, "workspace")
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		w.t.Fatal(err)
	}
	mine := sessions
	mine.Client = func(q db.Queryer, id string) (string, bool, error) {
		if id == "stuck" && w.stuck.Load() {
			return "", false, errors.New("the session cannot be read")
		}
		return sessions.Client(q, id)
	}
	w.svc = environment.New(environment.Options{
		Agent: func(_ db.Queryer, sessionID string) (id, name string, err error) {
			return "task-of-" + sessionID, "the sub-agent of " + sessionID, nil
		}, DB: w.db, Bus: w.bus, Inbox: box, Runs: store.RuleRuns{}, Holds: store.RuleWaits{}, Causes: store.RuleRuns{}, Events: store.RuleEvents{}, Session: mine, Rules: rules, Logger: w.logger(), Workspace: func(db.Queryer, string, string) (string, error) { return workspace, nil },
	})
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
	return environment.DefaultRules(environment.DefaultsOptions{DB: w.db, Logger: w.logger(), Session: sessions})
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
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
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
	r.Action = environment.Function(func(_ context.Context, _ bus.Delivery, e event.EnvEvent) error { got <- e; return nil })
	return r, got
}

func next(t *testing.T, got <-chan event.EnvEvent) event.EnvEvent {
	t.Helper()
	select {
	case e := <-got:
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event was handled")
		return event.EnvEvent{}
	}
}
