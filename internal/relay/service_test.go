package relay_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
	"lilac/internal/outbox"
	"lilac/internal/relay"
	"lilac/internal/sqlitebus"
	"lilac/internal/store"
	"lilac/internal/surface"
)

const request = "discord:10:5"

// platform keeps messages and fails as it is told.
type platform struct {
	surface.Adapter
	mu     sync.Mutex
	rand   *rand.Rand
	faulty float64
	denied bool
	// gone says that the whole channel was deleted.
	gone bool
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
	return surface.Capabilities{Edit: true, Delete: true, Typing: true, Files: true, Replies: true, Buttons: true, MaxText: cmp.Or(p.maxText, 2000), MaxFiles: 10, MaxFileBytes: 1 << 20}
}

// fails draws whether a call fails, and whether it was carried out then.
func (p *platform) fails() (err error, carriedOut bool) {
	if p.denied {
		return fault.New(fault.Denied, "We may not write there."), false
	}
	if p.gone {
		f := fault.New(fault.NotFound, "There is no such channel.")
		f.Code = surface.CodeUnknownChannel
		return f, false
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
	p.mu.Lock()
	defer p.mu.Unlock()
	err, done := p.fails()
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
	err, done := p.fails()
	if done {
		m.Content, m.edits = c, m.edits+1
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
	err, done := p.fails()
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

// seen are the messages that people see.
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

// stage is the relay with everything around it, in fake time.
type stage struct {
	t        *testing.T
	db       *db.DB
	bus      *sqlitebus.Bus
	platform *platform
	// failTails is how often outputs cannot be read when somebody begins to.
	failTails atomic.Int64
	seq       int
	said      string
	stop      func()
}

// outOfReach is a bus whose outputs cannot be read at first.
type outOfReach struct {
	bus.Bus
	left *atomic.Int64
}

func (o outOfReach) Tail(ctx context.Context, t bus.Tail, h func(bus.Delivery) error) error {
	if o.left.Add(-1) >= 0 {
		return fault.New(fault.Unavailable, "the log cannot be reached")
	}
	return o.Bus.Tail(ctx, t, h)
}

func newStage(t *testing.T, p *platform) *stage {
	s := &stage{t: t, platform: p}
	var err error
	if s.db, err = db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}); err != nil {
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
	relays = relay.New(relay.Options{DB: s.db, Bus: outOfReach{s.bus, &s.failTails}, Table: store.New(s.db), Outbox: out, Cache: store.SurfaceCache{}, Adapter: s.platform})
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
	for range 2 { // a publisher that does not know the outcome publishes again
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

// finished waits until the answer is shown whole.
func (s *stage) finished() {
	s.t.Helper()
	for range 600 {
		var row relay.Row
		err := s.db.Read(s.t.Context(), func(q db.Queryer) (err error) { row, err = store.New(s.db).Relay(q, "discord", request); return err })
		if err == nil && row.Finished {
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatal("the answer is never shown whole")
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

func TestOneMessageFillsUp(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		for range 50 {
			s.say("word ")
			time.Sleep(100 * time.Millisecond)
		}
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 1 || seen[0].Text != strings.TrimSpace(strings.Repeat("word ", 50)) || seen[0].ReplyTo != "5" || len(seen[0].Buttons) != 0 {
		t.Errorf("seen: %+v", seen)
	}
	if n := seen[0].edits; n < 2 || n > 7 {
		t.Errorf("five seconds made %d edits, one in 1.2 s is the limit", n)
	}
}

// That an answer is being made is shown as typing until something of it is
// seen, and never when it is over.
func TestTypingEndsWithTheFirstMessageOrTheRequest(t *testing.T) {
	for name, says := range map[string]string{"an answer": "here it is", "none": "NO_REPLY"} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			var silent, speaking, over int
			play(t, p, func(s *stage) {
				time.Sleep(30 * time.Second)
				silent = p.typing()
				s.say(says)
				time.Sleep(30 * time.Second)
				speaking = p.typing() - silent
				s.end(event.StateDone, "")
				ended := p.typing()
				time.Sleep(time.Minute)
				over = p.typing() - ended
			})
			// A platform shows it for about ten seconds.
			if silent < 3 || silent > 5 {
				t.Errorf("in half a minute of silence it typed %d times", silent)
			}
			if seen := says != "NO_REPLY"; seen != (speaking == 0) || over != 0 {
				t.Errorf("it typed %d times beside its words, %d times after the end", speaking, over)
			}
		})
	}
}

func TestARestartGoesOnWithTheSameMessage(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("before ")
		time.Sleep(2 * time.Second)
		s.restart()
		s.say("after")
		s.end(event.StateDone, "")
	})
	if seen := p.seen(); len(seen) != 1 || seen[0].Text != "before after" {
		t.Errorf("seen: %+v", seen)
	}
}

// A log that is out of reach for a while, longer than an ended request's output
// is waited for, cuts no answer short and stops no request as a silent one.
func TestALogOutOfReachCutsNothingShort(t *testing.T) {
	for name, before := range map[string]string{"from the start": "", "in the middle": "before "} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				if before != "" {
					s.say(before)
					time.Sleep(2 * time.Second)
				}
				s.stop()
				s.failTails.Store(200) // an attempt every two seconds
				s.start()
				time.Sleep(6 * time.Minute)
				if seen := p.seen(); before != "" && (len(seen) != 1 || !strings.HasPrefix(seen[0].Text, strings.TrimSpace(before))) {
					t.Errorf("meanwhile is seen: %+v", seen)
				}
				s.say("after")
				s.end(event.StateDone, "")
				if got := s.commands(); len(got) != 0 {
					t.Errorf("the runner was told %v", got)
				}
			})
			if seen := p.seen(); len(seen) != 1 || seen[0].Text != before+"after" {
				t.Errorf("seen: %+v", seen)
			}
		})
	}
}

func TestTheSameTriggerTwiceMakesOneRelay(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.RequestReply{})
		s.say("hello")
		s.end(event.StateDone, "")
		s.publish(event.RequestReply{})
		time.Sleep(time.Minute)
	})
	if seen := p.seen(); len(seen) != 1 {
		t.Errorf("seen: %+v", seen)
	}
}

func TestASteerMovesTheAnswerWhenItIsApplied(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("old way")
		time.Sleep(2 * time.Second)
		s.publish(event.SurfaceReanchor{MessageID: "7", ReplyTo: &event.MessageRef{Platform: "discord", ChannelID: "10", MessageID: "7"}})
		s.say(", still")
		time.Sleep(2 * time.Second)
		if seen := p.seen(); len(seen) != 1 {
			t.Errorf("moved before it was applied: %+v", seen)
		}
		s.publish(event.OutputAnchor{MessageID: "7", Offset: int64(len(s.said))})
		s.say("new way")
		time.Sleep(2 * time.Second)
		s.restart()
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 2 || seen[0].Text != "old way, still" || seen[1].Text != "new way" || seen[1].ReplyTo != "7" {
		t.Errorf("seen: %+v", seen)
	}
}

func TestACutWithoutAMessageIsAtOnce(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("one")
		time.Sleep(2 * time.Second)
		s.publish(event.SurfaceReanchor{InheritReplyTo: true})
		time.Sleep(time.Second)
		s.say("two")
		s.restart()
		s.end(event.StateDone, "")
	})
	if seen := p.seen(); len(seen) != 2 || seen[0].Text != "one" || seen[1].Text != "two" {
		t.Errorf("seen: %+v", seen)
	}
}

func TestNoReplyLeavesNoTrace(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("NO_RE")
		time.Sleep(10 * time.Second)
		s.publish(event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"})
		s.publish(event.RequestLifecycle{State: event.StateDone})
		s.finished()
	})
	if len(p.messages) != 0 || p.typed == 0 {
		t.Errorf("%d messages, typed %d times", len(p.messages), p.typed)
	}
}

func TestAChannelThatTakesNothingEndsTheRequest(t *testing.T) {
	p := &platform{denied: true}
	play(t, p, func(s *stage) {
		s.say("hello")
		s.finished()
		if cancels := s.commands(); len(cancels) != 1 || cancels[0].Type != event.CmdRequestCancel {
			t.Errorf("the runner was told %v", cancels)
		}
	})
}

func TestAChannelThatIsDeletedEndsTheRequestAndAMessageDoesNot(t *testing.T) {
	for name, commands := range map[string]int{"the channel": 1, "the message": 0} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				s.say("hello")
				time.Sleep(2 * time.Second)
				p.mu.Lock()
				p.gone, p.messages[0].deleted = commands > 0, true
				p.mu.Unlock()
				s.say(" there")
				time.Sleep(10 * time.Second)
				if got := s.commands(); len(got) != commands {
					t.Errorf("the runner was told %v", got)
				}
			})
		})
	}
}

func TestASilentRequestIsStoppedAndSaysSo(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("hello")
		for range 10 { // it works in silence and says so
			time.Sleep(time.Minute)
			s.publish(event.OutputActivity{})
		}
		if n := len(s.commands()); n != 0 {
			t.Errorf("%d commands while it works", n)
		}
		time.Sleep(6 * time.Minute)
		if n := len(s.commands()); n != 1 {
			t.Fatalf("%d commands after silence", n)
		}
		s.end(event.StateCancelled, "Nothing was heard.")
	})
	if seen := p.seen(); len(seen) != 1 || seen[0].Text != "hello\n\n⏹️ Nothing was heard." {
		t.Errorf("seen: %+v", seen)
	}
}

func (s *stage) commands() []bus.Delivery {
	s.t.Helper()
	out, err := s.bus.Fetch(s.t.Context(), event.TopicCmdRequest, "", 10)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestLateFilesFollowTheAnswer(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "early.txt", DataBase64: "YQ=="})
		s.say("look")
		time.Sleep(2 * time.Second)
		s.restart()
		s.publish(event.BinaryOutput{BinaryID: "b", Filename: "late.txt", DataBase64: "Yg=="})
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 2 || len(seen[0].Files) != 1 || seen[0].Files[0].Name != "early.txt" || len(seen[1].Files) != 1 || seen[1].Files[0].Name != "late.txt" || seen[1].ReplyTo != seen[0].id {
		t.Errorf("seen: %+v", seen)
	}
}

// A message that showed a tool only and carries a file is not deleted with its
// text: the file would go with it.
func TestAFileStaysWhenTheTextOfItsMessageGoes(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "early.txt", DataBase64: "YQ=="})
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash"})
		time.Sleep(2 * time.Second)
		s.restart()
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolEnd})
		s.publish(event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"})
		s.publish(event.RequestLifecycle{State: event.StateDone})
		s.finished()
	})
	if seen := p.seen(); len(seen) != 1 || len(seen[0].Files) != 1 || seen[0].Text != "" || len(seen[0].Buttons) != 0 {
		t.Errorf("seen: %+v", seen)
	}
}

// Seeds of a long answer with steers, resets and files, through restarts and a
// platform that fails: what people see in the end is what was said, once.
func TestWhateverHappensTheAnswerIsSeenOnce(t *testing.T) {
	for seed := range uint64(12) {
		if got, want := simulate(t, seed, false); got != want {
			t.Errorf("seed %d: seen %q\nwant %q", seed, got, want)
		}
	}
}

// The control: a relay that forgets what it made says things twice.
func TestARelayThatForgetsSaysThingsTwice(t *testing.T) {
	for seed := range uint64(12) {
		if got, want := simulate(t, seed, true); got != want {
			return
		}
	}
	t.Error("nothing was said twice: the proof proves nothing")
}

// simulate plays a seed and returns what is seen and what was said, without
// white space.
func simulate(t *testing.T, seed uint64, forgetful bool) (seen, said string) {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &platform{rand: rand.New(rand.NewPCG(seed, 8)), faulty: 0.2, maxText: 400}
	play(t, p, func(s *stage) {
		journaled := 0
		for step := range 40 {
			switch r.IntN(12) {
			case 0:
				s.restart()
				if forgetful {
					forget(s.t, s.db)
				}
			case 1:
				id := fmt.Sprint(1000 + step)
				s.publish(event.SurfaceReanchor{MessageID: id, InheritReplyTo: r.IntN(2) == 0})
				s.publish(event.OutputAnchor{MessageID: id, Offset: int64(len(s.said))})
				journaled = len(s.said)
			case 2:
				s.said = s.said[:journaled]
				s.publish(event.TextReset{Offset: int64(journaled)})
			case 3:
				s.publish(event.BinaryOutput{BinaryID: fmt.Sprint("f", step), Filename: "f", DataBase64: "YQ=="})
			case 4:
				journaled = len(s.said)
			case 5:
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			default:
				s.say(strings.Repeat(fmt.Sprintf("w%d ", step), r.IntN(30)))
			}
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		s.end(event.StateDone, "")
		said = s.said
	})
	var text strings.Builder
	for _, m := range p.seen() {
		text.WriteString(m.Text)
	}
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, s)
	}
	if said == "" {
		said = "*(no answer)*"
	}
	return plain(text.String()), plain(said)
}

func forget(t *testing.T, d *db.DB) {
	t.Helper()
	if err := d.Update(t.Context(), func(tx *db.Tx) error {
		row, err := store.New(d).Relay(tx, "discord", request)
		if err != nil {
			return nil // nothing to forget yet
		}
		row.Messages = nil
		if _, err := tx.Exec(`DELETE FROM outbox`); err != nil {
			return err
		}
		return store.New(d).SaveRelay(tx, row)
	}); err != nil {
		t.Fatal(err)
	}
}
