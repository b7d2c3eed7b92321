package router_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

const self = "900"

// world is a router on a real database and bus.
type world struct {
	t    *testing.T
	db   *db.DB
	bus  *sqlitebus.Bus
	gate router.Gate
	// budget pays for the gate.
	budget budget
	mode   router.Mode
	// programs lets other programs wake the agent.
	programs bool
	// unreadable has the reports about answers of the gate that could not be read.
	unreadable []bool
	// muted has the sessions in which a question was not answered because we may not write there.
	muted []string
	// marks may be nil.
	marks router.Marks
	claim func(tx *db.Tx, m surface.Message) (bool, error)
	// talk and act select people; roles are those of the authors.
	talk, act surface.People
	roles     map[string][]string
	svc       *router.Service
	ran       map[string]bool
	// now stands still until a test advances it. A burst waits for it; so stop the router
	// first, unless the test is about the burst's release.
	now  atomic.Int64
	ids  atomic.Int64
	stop func()
}

// budget records what was spent. Only the database's writer, and the test after the
// router has stopped, use its fields.
type budget struct {
	exhausted string
	spent     []chat.Usage
}

func (b *budget) Exhausted(db.Queryer, string) (string, error) { return b.exhausted, nil }

func (b *budget) Spend(_ *db.Tx, _ string, used chat.Usage, _ time.Duration) error {
	b.spent = append(b.spent, used)
	return nil
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, mode: router.Mention, stop: func() {}, ran: map[string]bool{}}
	w.now.Store(1_000_000)
	var err error
	w.db, err = db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}))
	if err != nil {
		t.Fatal(err)
	}
	if w.bus, err = sqlitebus.New(w.db, sqlitebus.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.stop()
		if err := errors.Join(w.bus.Close(), w.db.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) SelfID() string                            { return self }
func (w *world) Names(db.Queryer) func(text string) string { return nil }
func (w *world) Mode(surface.Session) router.Mode          { return w.mode }
func (w *world) Programs(surface.Session) bool             { return w.programs }
func (w *world) Shows(string) bool                         { return false }
func (w *world) MayTalk(u surface.User) bool               { return w.talk.Includes(u) }

func (w *world) Grant(u surface.User) grant.Grant {
	if w.act.Includes(u) {
		return nil
	}
	return grant.Of(grant.Tools{Allow: grant.Reading})
}

func (w *world) ClaimReply(tx *db.Tx, m surface.Message) (bool, error) {
	if w.claim == nil {
		return false, nil
	}
	return w.claim(tx, m)
}

// start runs the router.
func (w *world) start() {
	w.t.Helper()
	tables := tables{ran: w.ran}
	s := router.New(router.Options{
		Platform: "discord", DB: w.db, Bus: w.bus, Table: tables, Inbox: store.Inbox{}, Cache: store.SurfaceCache{},
		Profile: w, Replies: w, Marks: w.marks,
		Budget:    &w.budget,
		NoVerdict: func(forwarded bool) { w.unreadable = append(w.unreadable, forwarded) },
		Muted:     func(_ *db.Tx, sessionID string) error { w.muted = append(w.muted, sessionID); return nil },
		Settings:  router.Settings{Debounce: router.Debounce{Wait: 3 * time.Second, Max: 10 * time.Second}, Gate: w.gate},
		NewID:     func() string { return fmt.Sprint(w.ids.Add(1)) },
		Now:       func() time.Time { return time.UnixMilli(w.now.Load()) },
	})
	w.svc = s
	if err := s.Declare(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			w.t.Error(err)
		}
	})
}

// say does what the adapter does with a message: the cache, then the event.
func (w *world) say(id, author, text string, facts surface.Facts) {
	w.t.Helper()
	m := surface.Message{Platform: "discord", ChannelID: "10", ID: id, AuthorID: author, AuthorName: "name" + author, Text: text, ReplyTo: facts.ReplyToMessageID, CreatedAt: w.now.Load(), Raw: facts.Raw("discord"), AuthorRoles: w.roles[author]}
	e, err := event.New(event.Meta{ID: "discord:" + id, Time: time.UnixMilli(1)}, event.AdapterMessage{
		Platform: "discord", ChannelID: "10", MessageID: id, UserID: author, UserName: m.AuthorName, Text: text, TS: m.CreatedAt, Raw: facts.Raw("discord"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		if err := (store.SurfaceCache{}).PutMessage(tx, m); err != nil {
			return err
		}
		return tx.Publish(e)
	}); err != nil {
		w.t.Fatal(err)
	}
}

// edit is what the adapter does with an edit.
func (w *world) edit(id, author, text string, at int64) {
	w.t.Helper()
	w.editWith(id, author, text, at, surface.Facts{})
}

func (w *world) editWith(id, author, text string, at int64, facts surface.Facts) {
	w.t.Helper()
	m := surface.Message{Platform: "discord", ChannelID: "10", ID: id, AuthorID: author, AuthorName: "name" + author, Text: text, CreatedAt: w.now.Load(), EditedAt: at}
	e, err := event.New(event.Meta{ID: fmt.Sprintf("edit:%s:%d", id, at), Time: time.UnixMilli(1)}, event.AdapterMessage{
		Updated: true, Platform: "discord", ChannelID: "10", MessageID: id, UserID: author, UserName: m.AuthorName, Text: text, TS: at, Raw: facts.Raw("discord"),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		if err := (store.SurfaceCache{}).PutMessage(tx, m); err != nil {
			return err
		}
		return tx.Publish(e)
	}); err != nil {
		w.t.Fatal(err)
	}
}

// delete is what the adapter does with a deletion.
func (w *world) delete(id string) {
	w.t.Helper()
	e, err := event.New(event.Meta{ID: "gone:" + id, Time: time.UnixMilli(1)}, event.AdapterDeletion{Platform: "discord", ChannelID: "10", MessageID: id, TS: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		if err := (store.SurfaceCache{}).MarkDeleted(tx, "discord", "10", id, 1); err != nil {
			return err
		}
		return tx.Publish(e)
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) lifecycle(request string, state event.RequestState) {
	w.t.Helper()
	e, err := event.New(event.Meta{ID: request + string(state), Time: time.UnixMilli(1), Headers: event.RequestHeaders(request, "10", "discord")}, event.RequestLifecycle{State: state})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.bus.Publish(w.t.Context(), e); err != nil {
		w.t.Fatal(err)
	}
}

// sent is an input of the runner: queue, request, and the text of each message.
type sent struct {
	Queue   event.Queue
	Request string
	Texts   []string
}

func (w *world) sent() (out []sent) {
	w.t.Helper()
	w.eachInput(func(requestID string, p event.Payload) {
		m, ok := p.(event.RequestMessage)
		if !ok {
			out = append(out, sent{Queue: "cancel", Request: requestID})
			return
		}
		s := sent{Queue: m.Queue, Request: requestID}
		for _, c := range m.Messages {
			s.Texts = append(s.Texts, c.Text())
		}
		out = append(out, s)
	})
	return out
}

// eachInput calls a function with every input of the runner.
func (w *world) eachInput(do func(requestID string, p event.Payload)) {
	w.t.Helper()
	deliveries, err := w.bus.Fetch(w.t.Context(), event.TopicCmdRequest, "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range deliveries {
		p, err := event.Decode(d.Event)
		if err != nil {
			w.t.Fatal(err)
		}
		do(d.Headers.RequestID(), p)
	}
}

func (w *world) expect(want ...sent) {
	w.t.Helper()
	w.eventually(func() bool { return len(w.sent()) >= len(want) })
	if diff := cmp.Diff(want, w.sent()); diff != "" {
		w.t.Errorf("-want +got\n%s", diff)
	}
}

func (w *world) eventually(done func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it did not happen; the runner received %v", w.sent())
		}
	}
}

// settled waits until the router has handled all that was published.
func (w *world) settled() {
	w.t.Helper()
	w.eventually(func() bool {
		groups, err := w.bus.Groups(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		return !slices.ContainsFunc(groups, func(g bus.GroupStatus) bool { return g.Backlog+g.Pending > 0 })
	})
}

func line(author, id, text string) string {
	return "[discord user_id=" + author + " user_name=name" + author + " message_id=" + id + "]\n" + text
}

var mentioned = surface.Facts{MentionsBot: true}

// tables are the store's, with the requests of which the session knows.
type tables struct {
	store.RouterStates
	store.ForwardedMessages
	ran map[string]bool
}

func (t tables) Ran(_ db.Queryer, _, requestID string) (bool, error) { return t.ran[requestID], nil }

// answer puts an answer of ours into the cache, as the relay does.
func (w *world) answer(request, id, replyTo, text string) {
	w.t.Helper()
	w.ran[request] = true
	w.put(surface.Message{
		Platform: "discord", ChannelID: "10", ID: id, AuthorID: self, AuthorName: "lilac", FromSelf: true, Text: text, ReplyTo: replyTo, RequestID: request,
	})
}

// put puts a message into the cache of which nobody tells.
func (w *world) put(m surface.Message) {
	w.t.Helper()
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error { return (store.SurfaceCache{}).PutMessage(tx, m) }); err != nil {
		w.t.Fatal(err)
	}
}

// deleteSession does what is left of a session that is deleted: nothing.
func (w *world) deleteSession() {
	w.t.Helper()
	clear(w.ran)
	if err := w.db.Update(w.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM router_forwarded WHERE session_id = '10'`)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestARestartKeepsTheRunningRequests(t *testing.T) {
	w := newWorld(t)
	w.start()
	dm := surface.Facts{IsDMBased: true}
	w.say("1", "7", "one", dm)
	w.settled()
	w.lifecycle("discord:10:1", event.StateRunning)
	w.settled()
	w.stop()
	w.say("2", "7", "two", dm)
	w.start()
	w.settled()
	w.lifecycle("discord:10:1", event.StateDone)
	w.settled()
	w.say("3", "7", "three", dm)
	w.expect(
		sent{event.Prompt, "discord:10:1", []string{line("7", "1", "one")}},
		sent{event.FollowUp, "discord:10:1", []string{line("7", "2", "two")}},
		sent{event.Prompt, "discord:10:3", []string{line("7", "3", "three")}},
	)
}

func TestAStopDuringTheStartIsNoFailure(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.svc.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestABurstSurvivesARestart(t *testing.T) {
	w := newWorld(t)
	w.mode = router.Active
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	w.settled()
	w.stop()
	w.now.Add(time.Hour.Milliseconds())
	w.start()
	w.expect(sent{event.Prompt, "discord:10:b1", []string{line("7", "1", "anyone?")}})
}

func TestAClockThatIsSetBackDelaysNoBurst(t *testing.T) {
	w := newWorld(t)
	w.mode = router.Active
	w.start()
	w.svc.Configure(router.Settings{Debounce: router.Debounce{Wait: 50 * time.Millisecond, Max: time.Second}})
	w.say("1", "7", "anyone?", surface.Facts{})
	w.settled()
	w.now.Add(-5 * time.Hour.Milliseconds())
	w.eventually(func() bool { return w.state().First == w.now.Load() })
	if got := w.sent(); len(got) > 0 {
		t.Errorf("before its time the runner received %v", got)
	}
	w.now.Add(50)
	w.expect(sent{event.Prompt, "discord:10:b2", []string{line("7", "1", "anyone?")}})
}

func TestAnErrorOfTheGateMeansNo(t *testing.T) {
	for name, c := range map[string]struct {
		gate router.Gate
		want int
	}{
		"yes": {func(context.Context, []chat.Message) (router.Verdict, error) {
			return router.Verdict{Forward: true, Used: asked}, nil
		}, 1},
		"no": {func(context.Context, []chat.Message) (router.Verdict, error) { return router.Verdict{Used: asked}, nil }, 0},
		"trouble": {func(context.Context, []chat.Message) (router.Verdict, error) {
			return router.Verdict{Forward: true, Used: asked}, errors.New("no model")
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			judging := make(chan []chat.Message, 1)
			w.mode, w.gate = router.Active, func(ctx context.Context, m []chat.Message) (router.Verdict, error) {
				judging <- m
				return c.gate(ctx, m)
			}
			w.start()
			w.say("1", "7", "anyone?", surface.Facts{})
			w.settled()
			w.stop()
			w.now.Add(time.Hour.Milliseconds())
			w.start()
			if m := <-judging; len(m) != 1 || m[0].Text() != line("7", "1", "anyone?") {
				t.Errorf("the gate was asked about %v", m)
			}
			w.judged()
			if got := w.sent(); len(got) != c.want {
				t.Errorf("the runner received %v", got)
			}
			if !slices.Equal(w.budget.spent, []chat.Usage{asked}) {
				t.Errorf("the budget has paid %+v", w.budget.spent)
			}
		})
	}
}

// judged waits until no burst waits for the gate.
func (w *world) judged() {
	w.t.Helper()
	w.eventually(func() bool { s := w.state(); return len(s.Gating) == 0 && len(s.Buffer) == 0 })
}

// state is what the router knows of the session.
func (w *world) state() (s router.State) {
	w.t.Helper()
	if err := w.db.Read(w.t.Context(), func(q db.Queryer) (err error) {
		s, err = store.New(w.db).RouterStates.RouterState(q, "discord", "10")
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestTheGateIsNotAskedWithoutABudget(t *testing.T) {
	w := newWorld(t)
	w.budget.exhausted = "This conversation has used 1 of the 1 step allowed."
	w.mode, w.gate = router.Active, func(context.Context, []chat.Message) (router.Verdict, error) {
		t.Error("the gate was asked")
		return router.Verdict{Forward: true}, nil
	}
	w.start()
	w.say("1", "7", "anyone?", surface.Facts{})
	w.settled()
	w.stop()
	w.now.Add(time.Hour.Milliseconds())
	w.start()
	w.judged()
	if got := w.sent(); len(got) != 0 || len(w.budget.spent) != 0 {
		t.Errorf("the runner received %v, and the budget has paid %+v", got, w.budget.spent)
	}
}

func TestADuplicateEventIsRoutedOnce(t *testing.T) {
	w := newWorld(t)
	w.say("1", "7", "<@900> one", mentioned)
	w.start()
	w.settled()
	w.stop()
	// An engine that loses its commits brings the event again to a new group.
	if err := w.bus.DropGroup(t.Context(), event.TopicAdapter, "router-discord"); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.settled()
	w.expect(sent{event.Prompt, "discord:10:1", []string{line("7", "1", "one")}})
}
