package workflow_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Engines(m)) }

// world is the service on a real database and bus.
type world struct {
	t       *testing.T
	dir     string
	db      *db.DB
	bus     *sqlitebus.Bus
	svc     *workflow.Service
	planned []outbox.Row
	routed  []string
	told    []string // what is remembered as told, with the session
	// withdrawn are the keys of what was taken back.
	withdrawn []string
	known     func(string) bool
	queued    func(string) bool
	// weaken returns tables that lose something: for controls.
	weaken func() (workflow.Table, workflow.Waits)
	// causes and logger are those of the service, if they are set.
	causes *causes
	logger *slog.Logger
	// ahead is by how much the clock on the wall is wrong.
	ahead atomic.Int64
	stop  func()
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.db, err = db.Open(context.Background(), dbtest.Options(db.Options{Dir: w.dir, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations), Now: w.now}))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{Now: w.now}); err != nil {
		w.t.Fatal(err)
	}
	table, waits := workflow.Table(store.Workflows{}), workflow.Waits(store.WorkflowWaits{})
	if w.weaken != nil {
		table, waits = w.weaken()
	}
	options := workflow.Options{
		DB: w.db, Bus: w.bus, Table: table, Waits: waits, Replies: store.HeldReplies{}, Inbox: store.Inbox{}, Cache: store.SurfaceCache{}, Logger: w.logger, Now: w.now,
		Check: func(_ []string, condition string) error {
			if condition == "broken" {
				return fault.InvalidField("if", "broken")
			}
			return nil
		},
		NewMatcher: func(e event.EnvEvent) workflow.Matcher {
			looked := map[string]bool{}
			return func(ctx context.Context, types []string, condition string) (bool, error) {
				first := !looked[condition]
				looked[condition] = true
				if condition == "endless" || condition == "slow at first" && first {
					<-ctx.Done()
					return false, ctx.Err()
				}
				return slices.Contains(types, string(e.Type)), nil
			}
		},
		SessionExists: func(_ db.Queryer, id string) (bool, error) { return w.known == nil || w.known(id), nil },
		RequestQueued: func(_ db.Queryer, id string) (bool, error) { return w.queued != nil && w.queued(id), nil },
	}
	if w.causes != nil {
		options.Causes = w.causes
	}
	w.svc = workflow.New(options)
	w.svc.Connect("discord", workflow.Platform{
		Outbox: w,
		Render: func(_ db.Queryer, m surface.Message) chat.Message {
			return chat.Text(chat.User, "["+m.AuthorID+"]\n"+m.Text)
		},
		MarkDelivered: func(_ *db.Tx, session, id string) error { w.told = append(w.told, session+" "+id); return nil },
		Route:         func(_ *db.Tx, m surface.Message) error { w.routed = append(w.routed, m.ID); return nil },
	})
	if err := w.svc.Declare(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// Plan and Wait make the world an outbox.
func (w *world) Plan(_ *db.Tx, r outbox.Row) error { w.planned = append(w.planned, r); return nil }

func (w *world) Withdraw(_ *db.Tx, key string) error {
	w.withdrawn = append(w.withdrawn, key)
	w.planned = slices.DeleteFunc(w.planned, func(r outbox.Row) bool { return r.Key == key })
	return nil
}

func (w *world) Wait(context.Context, string) (outbox.Row, error) {
	return outbox.Row{}, errors.New("nobody waits here")
}

func (w *world) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- w.svc.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
		w.stop = nil
	}
}

func (w *world) close() {
	if w.stop != nil {
		w.stop()
	}
	if err := errors.Join(w.bus.Close(), w.db.Close()); err != nil {
		w.t.Error(err)
	}
}

// restart is what a crash looks like to the tables.
func (w *world) restart() {
	w.close()
	w.open()
}

func (w *world) update(fn func(tx *db.Tx) error) {
	w.t.Helper()
	if err := w.db.Update(context.Background(), fn); err != nil {
		w.t.Fatal(err)
	}
}

// definition is a create command's payload.
func definition(id string, completion workflow.Completion, tasks ...workflow.Spec) event.WorkflowCreate {
	return event.WorkflowCreate{WorkflowID: id, Definition: input(workflow.Definition{Summary: "ask Bob", Completion: completion, Tasks: tasks})}
}

func (w *world) submit(p event.Payload) {
	w.t.Helper()
	if err := w.svc.Submit(context.Background(), asker, nil, p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) publish(id string, p event.Payload) {
	w.t.Helper()
	e, err := event.New(event.Meta{ID: id, Time: time.Now(), Headers: event.RequestHeaders(asker.RequestID, asker.SessionID, asker.Client)}, p)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.bus.Publish(context.Background(), e); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(id string) (out workflow.Workflow) {
	w.t.Helper()
	err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
		out, err = store.New(w.db).Workflows.Workflow(q, id)
		return err
	})
	if err != nil && fault.KindOf(err) != fault.NotFound {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) becomes(id string, want workflow.State) workflow.Workflow {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		got := w.get(id)
		if got.State == want {
			return got
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s is %q, not %q", id, got.State, want)
		}
	}
}

// woken are the requests that workflows made, with their texts.
func (w *world) woken() (out []string) {
	w.t.Helper()
	found, err := w.bus.Fetch(context.Background(), event.TopicCmdRequest, "", 5000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range found {
		p, err := event.Decode(d.Event)
		if err != nil {
			w.t.Fatal(err)
		}
		m := p.(event.RequestMessage)
		line := d.Headers.RequestID() + " in " + d.Headers.SessionID() + "/" + d.Headers.Client() + " " + string(m.Queue)
		for _, c := range m.Messages {
			line += "\n" + string(c.Role) + ": " + c.Text()
		}
		out = append(out, line)
	}
	return out
}

func (w *world) message(id, replyTo string) surface.Message {
	m := surface.Message{Platform: "discord", ChannelID: "10", ID: id, AuthorID: "7", AuthorName: "bob", Text: "Tuesday", ReplyTo: replyTo, CreatedAt: 1}
	w.update(func(tx *db.Tx) error { return store.SurfaceCache{}.PutMessage(tx, m) })
	return m
}

func (w *world) takes(m surface.Message) (taken bool) {
	w.t.Helper()
	w.update(func(tx *db.Tx) (err error) { taken, err = w.svc.ClaimReply(tx, m); return err })
	return taken
}
