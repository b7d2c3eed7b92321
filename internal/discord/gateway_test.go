package discord_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/db"
	"lilac/internal/discord"
	"lilac/internal/discordtest"
	"lilac/internal/fault"
	"lilac/internal/store"
)

// long reports whether the long forms of the proofs are asked for.
func long() bool { return os.Getenv("LILAC_LONG") == "1" }

// lost counts what of a number of messages was not heard exactly once.
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

// faults are the ways in which a gateway's connection can end.
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
		func() { // silence, until the heartbeat shows it
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

// talk says messages while faults happen, and counts what was not heard
// exactly once. Time is fake in it.
func talk(t *testing.T, rounds int, change func(*discord.Options)) (missing, twice int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		o := w.options()
		change(&o)
		w.connected(o)
		bad := faults(w)
		said := 0
		say := func() {
			w.server.Say(w.channel, w.ann, fmt.Sprintf("message %d", said), discordtest.SayOptions{})
			said++
		}
		for round := range rounds {
			say()
			bad[round%len(bad)]()
			say()
			time.Sleep(time.Duration(round%7) * 13 * time.Second)
			say()
			if round%25 == 24 {
				time.Sleep(time.Hour) // new sessions are rationed
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
	rounds := 60
	if long() {
		rounds = 500
	}
	if missing, twice := talk(t, rounds, func(*discord.Options) {}); missing != 0 || twice != 0 {
		t.Errorf("%d lost, %d heard twice", missing, twice)
	}
	// Without reading what was said meanwhile the same faults lose messages.
	if missing, _ := talk(t, 12, func(o *discord.Options) { o.BackfillMessages = 0 }); missing == 0 {
		t.Error("without the histories nothing was lost: the test shows nothing")
	}
}

// stale is a table that never writes the gateway's position down, and
// forgetful one whose inbox has seen nothing.
type (
	stale     struct{ store.Discord }
	forgetful struct{ stale }
)

func (s stale) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	g.Sequence = 1
	return s.Discord.SaveGateway(tx, g)
}

func (forgetful) Seen(*db.Tx, string, string, []byte) ([]byte, bool, error) { return nil, false, nil }

func TestWhatTheGatewayTellsAgainIsHeardOnce(t *testing.T) {
	again := func(table func(discord.Table) discord.Table) (missing, twice int) {
		w := newWorld(t, discordtest.Options{})
		for restart := range 3 {
			o := w.options()
			o.Table = table(o.Table)
			_, stop := w.connected(o)
			text := fmt.Sprintf("message %d", restart)
			w.server.Say(w.channel, w.ann, text, discordtest.SayOptions{})
			w.hears(text)
			stop()
		}
		return lost(3, w.said())
	}
	if missing, twice := again(func(t discord.Table) discord.Table { return stale{t.(store.Discord)} }); missing != 0 || twice != 0 {
		t.Errorf("%d lost, %d heard twice", missing, twice)
	}
	if _, twice := again(func(t discord.Table) discord.Table { return forgetful{stale{t.(store.Discord)}} }); twice == 0 {
		t.Error("without the inbox nothing was heard twice: the test shows nothing")
	}
}

func TestADayOfFlappingBeginsFewSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		w.connected(w.options())
		for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(20 * time.Second) {
			w.server.DropGateway(discordtest.Invalid)
		}
		if n := len(w.server.Identifies()); n > 200 || n < 20 {
			t.Errorf("%d sessions were begun in a day", n)
		}
	})
	// A client that only waits a second begins thousands.
	if n := int(24 * time.Hour / (21 * time.Second)); n <= 200 {
		t.Errorf("the flapping would begin %d sessions without a ration: the test shows nothing", n)
	}
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

func TestADeafBotSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		a, _ := w.connected(w.options())
		for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); time.Sleep(10 * time.Second) {
			if err := a.Healthy(); err != nil {
				t.Fatalf("a false alarm: %v", err)
			}
		}
		w.server.Silence(true)
		began := time.Now()
		for a.Healthy() == nil {
			if time.Since(began) > 91*time.Second {
				t.Fatal("a deaf bot says nothing for more than 90 seconds")
			}
			time.Sleep(time.Second)
		}
		if w.server.Connected() == 0 {
			t.Log("the socket was closed already")
		}
		w.server.Silence(false)
		for began := time.Now(); a.Healthy() != nil; time.Sleep(time.Second) {
			if time.Since(began) > 5*time.Minute {
				t.Fatalf("it hears again and still says %v", a.Healthy())
			}
		}
	})
}

func TestARestartResumesTheSessionAndHearsWhatWasSaidMeanwhile(t *testing.T) {
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
	// The session is gone, so the channel's history is read.
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

func TestWhatIsTooOldIsNotReadAfterADowntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Fake time begins before Discord's ids do.
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		w := newWorld(t, discordtest.Options{Memory: true})
		_, stop := w.connected(w.options())
		w.server.Say(w.channel, w.ann, "message 0", discordtest.SayOptions{})
		w.hears("message 0")
		stop()
		w.server.ExpireSessions()
		w.server.Say(w.channel, w.ann, "of the day before yesterday", discordtest.SayOptions{})
		time.Sleep(36 * time.Hour)
		w.server.Say(w.channel, w.ann, "message 1", discordtest.SayOptions{})
		w.connected(w.options())
		w.hears("message 1")
		w.hearsOnly("message 0", "message 1")
	})
}
