package relay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

const request = "discord:10:5"

// platform is a fake platform with configurable failures.
type platform struct {
	surface.Adapter
	mu     sync.Mutex
	rand   *rand.Rand
	faulty float64
	denied bool
	// noFiles makes it refuse files.
	noFiles bool
	// gone deletes the whole channel.
	gone bool
	// frozen is the number of first messages that take no more edits.
	frozen int
	// unheard is the number of next edits whose success is not reported.
	unheard int
	// busy is the end of a rate limit, and asked the number of calls during it.
	busy  time.Time
	asked int
	// away is the end of an outage with the fault kind, for the calls named only, or
	// all of them if that is "". refuse is the number of calls that are denied first.
	away   time.Time
	kind   fault.Kind
	only   string
	refuse int
	// maxText is the longest message; it must leave room for the status.
	maxText  int
	messages []*shownMessage
	typed    int
}

type shownMessage struct {
	surface.Send
	id      string
	deleted bool
	edits   int
}

func (p *platform) Platform() string { return "discord" }

func (p *platform) Capabilities() surface.Capabilities {
	return surface.Capabilities{Edit: true, Delete: true, Typing: true, Files: true, Replies: true, Buttons: true, MaxText: cmp.Or(p.maxText, 2000), MaxFiles: 10}
}

func (p *platform) MaxFileBytes(string) int64 { return 1 << 20 }

// fails decides at random whether a call fails and whether it has an effect.
func (p *platform) fails(call string) (err error, carriedOut bool) {
	if p.refuse > 0 || p.denied {
		p.refuse--
		return fault.New(fault.Denied, "We may not write there."), false
	}
	if p.gone {
		f := fault.New(fault.NotFound, "There is no such channel.")
		f.Code = surface.CodeUnknownChannel
		return f, false
	}
	if wait := time.Until(p.busy); wait > 0 {
		p.asked++
		f := fault.New(fault.RateLimited, "later")
		f.RetryAfter = wait
		return f, false
	}
	if time.Now().Before(p.away) && (p.only == "" || p.only == call) {
		p.asked++
		return fault.New(p.kind, "not now"), false
	}
	if p.rand == nil || p.rand.Float64() >= p.faulty {
		return nil, true
	}
	if p.rand.IntN(2) == 0 {
		return fault.New(fault.Unavailable, "not now"), false
	}
	return fault.New(fault.Timeout, "no answer"), p.rand.IntN(2) == 0
}

func (p *platform) Send(_ context.Context, s surface.Send) (surface.Message, error) {
	if p.noFiles && len(s.Files) > 0 {
		return surface.Message{}, fault.New(fault.Denied, "We may not send files there.")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err, done := p.fails("send")
	if done {
		p.messages = append(p.messages, &shownMessage{Send: s, id: fmt.Sprint(len(p.messages) + 100)})
	}
	return surface.Message{ID: fmt.Sprint(len(p.messages) + 99)}, err
}

func (p *platform) FindNonce(_ context.Context, _, nonce string, _ time.Time) (surface.Message, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if m.Nonce == nonce {
			return surface.Message{ID: m.id}, true, nil
		}
	}
	return surface.Message{}, false, nil
}

func (p *platform) find(ref event.MessageRef) *shownMessage {
	i := slices.IndexFunc(p.messages, func(m *shownMessage) bool { return m.id == ref.MessageID && !m.deleted })
	if i < 0 {
		return nil
	}
	return p.messages[i]
}

func (p *platform) Edit(_ context.Context, ref event.MessageRef, c surface.Content) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.find(ref)
	if m == nil && !p.gone {
		return fault.New(fault.NotFound, "There is no such message.")
	}
	if slices.Index(p.messages, m) < p.frozen && m != nil {
		return fault.New(fault.Conflict, "No edit of this message is taken any more.")
	}
	err, done := p.fails("edit")
	if done {
		m.Content, m.edits = c, m.edits+1
	}
	if p.unheard > 0 {
		p.unheard--
		return fault.New(fault.Timeout, "no answer")
	}
	return err
}

func (p *platform) Delete(_ context.Context, ref event.MessageRef) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.find(ref)
	if m == nil {
		return fault.New(fault.NotFound, "There is no such message.")
	}
	err, done := p.fails("delete")
	m.deleted = m.deleted || done
	return err
}

func (p *platform) Typing(context.Context, string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typed++
	return nil
}

// typing is how often it was shown.
func (p *platform) typing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.typed
}

// seen returns the messages that are not deleted.
func (p *platform) seen() (out []shownMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if !m.deleted {
			out = append(out, *m)
		}
	}
	return out
}

// stage is a relay with its collaborators, in fake time.
type stage struct {
	t        *testing.T
	db       *db.DB
	bus      *sqlitebus.Bus
	platform *platform
	// failTails is the number of next Tail calls that fail.
	failTails atomic.Int64
	// lost makes the outputs unavailable; recalled is the output in the journal.
	lost     atomic.Bool
	recalled []event.Payload
	// failPlans is the number of next Plan calls that fail.
	failPlans atomic.Int64
	seq       int
	said      string
	stop      func()
}

// outOfReach is a bus whose first Tail calls fail.
type outOfReach struct {
	bus.Bus
	left *atomic.Int64
	lost *atomic.Bool
}

func (o outOfReach) Tail(ctx context.Context, t bus.Tail, h func(bus.Delivery) error) error {
	if o.left.Add(-1) >= 0 {
		return fault.New(fault.Unavailable, "the log cannot be reached")
	}
	if o.lost.Load() {
		return bus.ErrTrimmed
	}
	return o.Bus.Tail(ctx, t, h)
}

// fullOutbox is an outbox whose first Plan calls fail.
type fullOutbox struct {
	outbox.Outbox
	left *atomic.Int64
}

func (o fullOutbox) Plan(tx *db.Tx, r outbox.Row) error {
	if o.left.Add(-1) >= 0 {
		return errors.New("the disk is full")
	}
	return o.Outbox.Plan(tx, r)
}

// journal has the final output of the request.
type journal struct{ s *stage }

func (journal) Mention(db.Queryer, string) (string, error)       { return "", nil }
func (journal) Askers(db.Queryer, string) ([]relay.Asker, error) { return nil, nil }
func (journal) Paused(db.Queryer, string) (bool, error)          { return false, nil }

func (j journal) FinalOutput(_ db.Queryer, _, requestID string) ([]event.Payload, error) {
	if j.s.recalled == nil {
		return nil, fault.New(fault.NotFound, "how %s ended is not known", requestID)
	}
	return j.s.recalled, nil
}

func newStage(t *testing.T, p *platform) *stage {
	s := &stage{t: t, platform: p}
	var err error
	if s.db, err = db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})); err != nil {
		t.Fatal(err)
	}
	if s.bus, err = sqlitebus.New(s.db, sqlitebus.Options{}); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s
}

func (s *stage) close() {
	s.stop()
	if err := errors.Join(s.bus.Close(), s.db.Close()); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) start() {
	s.t.Helper()
	var relays *relay.Service
	out := outbox.New(outbox.Options{DB: s.db, Table: store.Outbox{}, Adapter: s.platform, Hooks: map[string]outbox.OnSent{
		relay.HookName: func(tx *db.Tx, r outbox.Row, m surface.Message) error { return relays.OnSent(tx, r, m) },
	}})
	relays = relay.New(relay.Options{DB: s.db, Bus: outOfReach{s.bus, &s.failTails, &s.lost}, Table: store.Relays{}, Outbox: fullOutbox{out, &s.failPlans}, Cache: store.SurfaceCache{}, Adapter: s.platform, Requests: journal{s}})
	if err := relays.Declare(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{out.Run, relays.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
}

func (s *stage) restart() { s.stop(); s.start() }

func (s *stage) publish(p event.Payload) {
	s.t.Helper()
	s.seq++
	e, err := event.New(event.Meta{ID: fmt.Sprint("e", s.seq), Time: time.Now(), Headers: event.RequestHeaders(request, "10", "discord")}, p)
	if err != nil {
		s.t.Fatal(err)
	}
	for range 2 { // a publisher retries after an unknown outcome
		if err := s.bus.Publish(s.t.Context(), e); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) say(text string) {
	s.t.Helper()
	s.publish(event.TextDelta{Delta: text, Offset: int64(len(s.said))})
	s.said += text
}

func (s *stage) end(state event.RequestState, detail string) {
	s.t.Helper()
	s.publish(event.FinalText{FinalText: s.said})
	s.publish(event.RequestLifecycle{State: state, Detail: detail})
	s.finished()
}

// finished waits until the relay is finished.
func (s *stage) finished() {
	s.t.Helper()
	for range 600 {
		var row relay.Row
		err := s.db.Read(s.t.Context(), func(q db.Queryer) (err error) {
			row, err = store.New(s.db).Relays.Relay(q, "discord", request)
			return err
		})
		if err == nil && row.Finished {
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatal("the relay is not finished after ten minutes")
}

func play(t *testing.T, p *platform, script func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, p)
		defer s.close()
		s.publish(event.RequestReply{})
		script(s)
	})
}
