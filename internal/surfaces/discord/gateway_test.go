package discord_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
	"lilac/internal/telemetry/health"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

// long reports whether the long versions of the tests are enabled.
func long() bool { return os.Getenv("LILAC_LONG") == "1" }

// lost returns how many of the expected messages were not received, and how many were received more
// than once.
func lost(said int, heard []string) (missing, twice int) {
	count := map[string]int{}
	for _, text := range heard {
		count[text]++
	}
	for i := range said {
		switch n := count[fmt.Sprintf("message %d", i)]; {
		case n == 0:
			missing++
		case n > 1:
			twice++
		}
	}
	return missing, twice
}

// faults returns the ways in which a gateway connection can end.
func faults(w *world) []func() {
	drop := func(d discordtest.Drop) func() { return func() { w.server.DropGateway(d) } }
	return []func(){
		drop(discordtest.Reconnect),
		drop(discordtest.InvalidResumable),
		drop(discordtest.Invalid),
		drop(discordtest.Cut),
		drop(discordtest.CloseWith(4000)),
		drop(discordtest.CloseWith(4007)),
		drop(discordtest.CloseWith(4008)),
		drop(discordtest.CloseWith(4009)),
		func() { w.server.ExpireSessions(); w.server.DropGateway(discordtest.Cut) },
		func() { w.server.RefuseGateway(2); w.server.DropGateway(discordtest.Cut) },
		func() { // silence, until the missing heartbeat acknowledgements reveal it
			w.server.Silence(true)
			time.Sleep(3 * time.Minute)
			w.server.Silence(false)
		},
		func() { // half-open
			w.server.HoldAcks(true)
			time.Sleep(3 * time.Minute)
			w.server.HoldAcks(false)
		},
	}
}

// talk posts messages in a number of servers during faults and returns how many were lost and how many
// were duplicated. It uses fake time.
func talk(t *testing.T, rounds, servers int, change func(*discord.Options)) (missing, twice int) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, servers)
		o := w.options()
		change(&o)
		w.connected(o)
		bad := faults(w)
		said := 0
		say := func() {
			w.server.Say(channels[said%len(channels)], w.ann, fmt.Sprintf("message %d", said), discordtest.SayOptions{})
			said++
		}
		for round := range rounds {
			say()
			bad[round%len(bad)]()
			say()
			time.Sleep(time.Duration(round%7) * 13 * time.Second)
			say()
			if round%25 == 24 {
				time.Sleep(time.Hour) // the identify budget limits new sessions
			}
		}
		deadline := time.Now().Add(12 * time.Hour)
		for {
			if missing, twice = lost(said, w.said()); missing == 0 || time.Now().After(deadline) {
				return
			}
			time.Sleep(time.Minute)
		}
	})
	return missing, twice
}

func TestNoMessageIsLostOrHeardTwiceAcrossFaults(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	rounds := 60
	if long() {
		rounds = 500
	}
	for _, servers := range []int{1, 3} { // with a connection for each
		if missing, twice := talk(t, rounds, servers, func(*discord.Options) {}); missing != 0 || twice != 0 {
			t.Errorf("in %d servers: %d lost, %d heard twice", servers, missing, twice)
		}
	}
	// Without the backfill, the same faults lose messages.
	if missing, _ := talk(t, 12, 1, func(o *discord.Options) { o.BackfillMessages = 0 }); missing == 0 {
		t.Error("without the histories nothing was lost: the test shows nothing")
	}
}

// stale is a table that never stores the gateway's sequence number. forgetful is an inbox that does
// not recognize duplicates.
type (
	stale     struct{ discord.GatewayTable }
	forgetful struct{ discord.Inbox }
)

func (s stale) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	g.Sequence = 1
	return s.GatewayTable.SaveGateway(tx, g)
}

func (forgetful) Seen(*db.Tx, string, string, []byte) ([]byte, bool, error) { return nil, false, nil }

func TestWhatTheGatewayTellsAgainIsHeardOnce(t *testing.T) {
	again := func(change func(*discord.Tables)) (missing, twice int) {
		w := newWorld(t, discordtest.Options{})
		for restart := range 3 {
			o := w.options()
			change(&o.Tables)
			_, stop := w.connected(o)
			text := fmt.Sprintf("message %d", restart)
			w.server.Say(w.channel, w.ann, text, discordtest.SayOptions{})
			w.hears(text)
			stop()
		}
		return lost(3, w.said())
	}
	if missing, twice := again(func(t *discord.Tables) { t.Gateway = stale{t.Gateway} }); missing != 0 || twice != 0 {
		t.Errorf("%d lost, %d heard twice", missing, twice)
	}
	if _, twice := again(func(t *discord.Tables) { t.Gateway, t.Inbox = stale{t.Gateway}, forgetful{} }); twice == 0 {
		t.Error("without the inbox nothing was heard twice: the test shows nothing")
	}
}

// flap invalidates the client's sessions for one day of fake time. It returns the number of sessions
// that were started and the violations of Discord's rules.
func flap(t *testing.T, change func(*world, *discord.Options)) (begun int, violations []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true, IdentifyEvery: 5 * time.Second})
		o := w.options()
		change(w, &o)
		a := discord.New(o)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = a.Run(ctx) }) // the fake reports the outcome
		for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(20 * time.Second) {
			w.server.DropGateway(discordtest.Invalid)
		}
		cancel()
		running.Wait()
		begun, violations = len(w.server.Identifies()), w.server.TakeViolations()
		for _, i := range w.server.Identifies() {
			if !i.Accepted && begun <= 1000 {
				violations = append(violations, fmt.Sprintf("a session was refused at %s", i.At))
			}
		}
	})
	return begun, violations
}

func TestADayOfFlappingBeginsFewSessions(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	if begun, wrong := flap(t, func(*world, *discord.Options) {}); begun > 200 || begun < 20 || len(wrong) > 0 {
		t.Errorf("%d sessions were begun in a day: %q", begun, wrong)
	}
	// Without the identify limit, and without asking Discord how many remain, the same day exhausts the
	// session starts, and Discord resets the token.
	begun, wrong := flap(t, func(w *world, o *discord.Options) {
		o.IdentifyLimit, o.GatewayURL = discord.IdentifyLimit{Burst: 1 << 30, Every: time.Second}, w.server.GatewayURL
	})
	if begun <= 1000 || !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, "resets the token") }) {
		t.Errorf("without an identify limit %d sessions were begun, and Discord says %q: the test shows nothing", begun, wrong)
	}
}

// The fake detects within an hour a client that reconnects without pauses and without backoff.
func TestControlAnIdentifyStormIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		dialer := websocket.Dialer{NetDialContext: w.server.Dial}
		for range 1100 {
			conn, response, err := dialer.Dial(w.server.GatewayURL+"?v=10&encoding=json", nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if err := conn.WriteJSON(map[string]any{"op": 2, "d": map[string]any{
				"token": discordtest.DefaultToken, "intents": 1, "properties": map[string]string{},
			}}); err != nil {
				t.Fatal(err)
			}
			var f struct{ Op int }
			for f.Op = 10; err == nil && f.Op == 10; { // Hello, then Ready or the end
				err = conn.ReadJSON(&f)
			}
			_ = conn.Close()
		}
		synctest.Wait()
		if wrong := w.server.TakeViolations(); len(wrong) == 0 || !strings.Contains(wrong[0], "resets the token") {
			t.Errorf("Discord says %q to %d sessions", wrong, len(w.server.Identifies()))
		}
	})
}

func TestWhatCannotBeHelpedIsTriedOnceAndSaid(t *testing.T) {
	for _, c := range []struct {
		name  string
		world discordtest.Options
		set   func(w *world, o *discord.Options)
		kind  fault.Kind
		want  string
	}{
		{"a wrong token at the gateway", discordtest.Options{}, func(w *world, o *discord.Options) { o.Token, o.GatewayURL = "wrong", w.server.GatewayURL }, fault.Unauthenticated, "Reset Token"},
		{"a wrong token at the API", discordtest.Options{}, func(_ *world, o *discord.Options) { o.Token = "wrong" }, fault.Unauthenticated, "Reset Token"},
		{"a missing intent", discordtest.Options{WithoutMessageContent: true}, func(*world, *discord.Options) {}, fault.Denied, "Message Content Intent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.world)
			o := w.options()
			c.set(w, &o)
			a := discord.New(o)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := a.Run(ctx)
			if fault.KindOf(err) != c.kind || !strings.Contains(fault.ToWire(err).Message, c.want) {
				t.Errorf("it ended with %v", err)
			}
			if cmp.Diff(fault.ToWire(err), fault.ToWire(a.Healthy())) != "" {
				t.Errorf("its health is %v", a.Healthy())
			}
			if n := len(w.server.Requests()); n > 1 {
				t.Errorf("%d requests were made", n)
			}
			if n := len(w.server.Identifies()); n > 1 {
				t.Errorf("%d sessions were begun", n)
			}
		})
	}
}

// watched returns what /readyz reports for the probes. As in the program, they run every five
// seconds.
func watched(t *testing.T, probes ...health.Probe) (ready func() bool) {
	m := health.New(health.Options{Probes: probes})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	m.Working()
	return func() bool { return m.Report().Ready }
}

func TestADeafBotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.connected(w.options())
		ready := watched(t, health.Probe{Name: "discord", Run: func(context.Context) error { return a.Healthy() }})
		blind := watched(t)
		time.Sleep(10 * time.Second)
		for hour := range 24 { // a normal day: Discord asks for a reconnect now and then
			for range 360 {
				if time.Sleep(10 * time.Second); !ready() {
					t.Fatalf("a false alarm in hour %d: %v", hour, a.Healthy())
				}
			}
			w.server.DropGateway([]discordtest.Drop{discordtest.Reconnect, discordtest.Cut, discordtest.InvalidResumable}[hour%3])
		}
		w.server.Silence(true)
		for began := time.Now(); ready(); time.Sleep(time.Second) {
			if time.Since(began) > 90*time.Second {
				t.Fatal("a deaf bot is ready for more than 90 seconds")
			}
		}
		if time.Sleep(10 * time.Minute); ready() || !blind() {
			t.Fatal("it is ready again, or without the probe it is not ready either: the test shows nothing")
		}
		w.server.Silence(false)
		for began := time.Now(); !ready(); time.Sleep(time.Second) {
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("it hears again and still says %v", a.Healthy())
			}
		}
	})
}

// A gateway that sends Hello and then rejects every session delivers no messages, so the adapter must
// not report itself healthy.
func TestTheLogSaysWhyAConnectionEnded(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	for _, c := range []struct {
		drop discordtest.Drop
		want string
	}{
		{discordtest.Reconnect, "a new connection was asked for by Discord"},
		{discordtest.Invalid, "the session was ended by Discord"},
	} {
		w.server.DropGateway(c.drop)
		w.await("the log says "+c.want, func() bool { return strings.Contains(w.log.String(), c.want) })
		w.server.AwaitConnected(t)
	}
}

func TestAGreetingIsNotHearing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.run(w.options())
		w.server.DropNext(slices.Repeat([]discordtest.Drop{discordtest.CloseWith(4000)}, 1000)...)
		for range 600 {
			if time.Sleep(time.Second); a.Healthy() == nil {
				t.Fatal("it was never in a session and calls itself healthy")
			}
		}
		w.server.ClearFaults()
		if time.Sleep(2 * time.Minute); a.Healthy() != nil {
			t.Errorf("a session is heard, and it says %v", a.Healthy())
		}
	})
}

func TestARestartResumesTheSessionAndHearsWhatWasSaidMeanwhile(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	_, stop := w.connected(w.options())
	w.server.Say(w.channel, w.ann, "message 0", discordtest.SayOptions{})
	w.hears("message 0")
	stop()
	w.close()
	w.server.Say(w.channel, w.ann, "message 1", discordtest.SayOptions{})
	w.open()
	_, stop = w.connected(w.options())
	w.hears("message 1")
	if n := len(w.server.Identifies()); n != 1 {
		t.Errorf("%d sessions were begun for one restart", n)
	}
	stop()
	w.close()
	// The session is gone, so the adapter reads the channel's history.
	w.server.ExpireSessions()
	w.server.Say(w.channel, w.ann, "message 2", discordtest.SayOptions{})
	thread := w.server.Thread(w.channel, "made while away")
	w.server.Say(thread, w.bob, "message 3", discordtest.SayOptions{})
	w.open()
	w.connected(w.options())
	w.hears("message 2")
	w.hears("message 3")
	if missing, twice := lost(4, w.said()); missing != 0 || twice != 0 {
		t.Errorf("%d lost, %d heard twice: %q", missing, twice, w.said())
	}
}

// The resume URL of a session can become unreachable. The adapter then resumes the same session at
// another address, and an outage does not use up new sessions.
func TestASessionIsResumedElsewhereWhenItsAddressIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true, ResumeURL: "ws://gone.invalid"})
		var outage atomic.Bool
		o := w.options()
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if outage.Load() || strings.HasPrefix(addr, "gone") {
				return nil, errors.New("there is nobody")
			}
			return w.server.Dial(ctx, network, addr)
		}
		w.connected(o)
		w.server.Say(w.channel, w.ann, "message 0", discordtest.SayOptions{})
		w.hears("message 0")
		w.server.DropGateway(discordtest.Cut)
		w.server.Say(w.channel, w.ann, "message 1", discordtest.SayOptions{})
		w.hears("message 1")
		if n := len(w.server.Identifies()); n != 1 {
			t.Errorf("%d sessions were begun", n)
		}
		outage.Store(true)
		w.server.ExpireSessions()
		w.server.DropGateway(discordtest.Cut)
		time.Sleep(6 * time.Hour)
		w.server.Say(w.channel, w.ann, "message 2", discordtest.SayOptions{})
		outage.Store(false)
		began := time.Now()
		for len(w.said()) < 3 {
			if time.Sleep(time.Second); time.Since(began) > 5*time.Minute {
				t.Fatalf("five minutes after an outage it heard %q", w.said())
			}
		}
	})
}

// Once all sessions have begun that Discord allows in a day, for example because a second program uses
// the token, one more resets the token (reported as claude-plugins-official#3140). The fake Discord fails
// the test for it.
func TestTheSessionsOfADayAreNotExceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true, IdentifiesPerDay: 2})
		a, _ := w.connected(w.options())
		for range 2 {
			w.server.DropGateway(discordtest.Invalid)
			time.Sleep(time.Hour)
		}
		if err := a.Healthy(); err == nil || !strings.Contains(w.log.String(), "another program uses the token") {
			t.Errorf("its health is %v, the log: %s", err, w.log.String())
		}
		time.Sleep(24 * time.Hour)
		if err := a.Healthy(); err != nil {
			t.Errorf("a day later its health is %v", err)
		}
	})
}
