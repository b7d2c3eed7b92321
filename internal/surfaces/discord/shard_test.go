package discord_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// inManyServers is like newWorld, with n servers of which no two fit on one connection. It returns a
// channel of each.
func inManyServers(t *testing.T, n int) (w *world, channels []string) {
	time.Sleep(20 * 365 * 24 * time.Hour) // to a time at which IDs tell when servers were created
	w = newWorld(t, discordtest.Options{Memory: true, IdentifyEvery: 5 * time.Second, GuildsPerShard: 1})
	channels = []string{w.channel}
	for len(channels) < n {
		time.Sleep(time.Millisecond)
		guild := w.server.Guild(fmt.Sprint("server ", len(channels)), w.ann)
		channels = append(channels, w.server.Channel(guild, "general"))
		w.allowed = append(w.allowed, guild)
	}
	return w, channels
}

// opened lists the connections whose sessions began.
func opened(w *world) (out [][2]int) {
	for _, i := range w.server.Identifies() {
		if i.Accepted {
			out = append(out, i.Shard)
		}
	}
	return out
}

func TestABotInTooManyServersForOneConnectionOpensMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, 3)
		o := w.options()
		o.AllowDMs = true
		_, stop := w.connected(o)
		if got, want := opened(w), [][2]int{{0, 3}, {1, 3}, {2, 3}}; !sameElements(got, want) {
			t.Fatalf("the connections %v were opened, want %v", got, want)
		}
		channels = append(channels, w.server.DM(w.ann))
		var want []string
		say := func(text string) {
			for i, c := range channels {
				w.server.Say(c, w.ann, fmt.Sprint(text, i), discordtest.SayOptions{})
				want = append(want, fmt.Sprint(text, i))
			}
		}
		say("while it listens ")
		for _, text := range want {
			w.hears(text)
		}

		stop()
		say("while it is away ")
		_, stop = w.connected(o)
		defer stop()
		for _, text := range want {
			w.hears(text)
		}
		w.caughtUp()
		if got := w.said(); !sameElements(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if n := len(opened(w)); n != 3 {
			t.Errorf("%d sessions began, want 3: a restart resumes all of them", n)
		}
	})
}

// sameElements reports whether two lists have the same elements, in any order.
func sameElements[T any](a, b []T) bool {
	text := func(list []T) (out []string) {
		for _, e := range list {
			out = append(out, fmt.Sprint(e))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(text(a), text(b))
}

func TestTheHealthNamesTheConnectionThatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := inManyServers(t, 2)
		a, stop := w.run(w.options())
		defer stop()
		w.await("one of two connections is open", func() bool { return len(opened(w)) == 1 })
		time.Sleep(time.Second)
		if err := a.Healthy(); err == nil || !strings.Contains(err.Error(), "of 2: Discord is not connected yet") {
			t.Errorf("with one of two connections, the health is %v", err)
		}
		w.await("both are open", func() bool { return a.Healthy() == nil })
	})
}

func TestNoMessageIsLostWhenTheBotOutgrowsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, 1)
		_, stop := w.connected(w.options())
		defer stop()
		w.server.Say(channels[0], w.ann, "message 0", discordtest.SayOptions{})
		w.hears("message 0")
		time.Sleep(time.Millisecond)
		w.server.Guild("another", w.ann) // the session goes on, a new one would have too many servers
		w.server.Say(channels[0], w.ann, "message 1", discordtest.SayOptions{})
		w.server.DropGateway(discordtest.Invalid)
		w.server.Say(channels[0], w.ann, "message 2", discordtest.SayOptions{})
		w.await("two connections are open", func() bool { return len(opened(w)) == 3 })
		w.server.Say(channels[0], w.ann, "message 3", discordtest.SayOptions{})
		w.await("all messages are heard", func() bool { missing, _ := lost(4, w.said()); return missing == 0 })
		w.nothingLeft()
		if missing, twice := lost(4, w.said()); missing+twice > 0 {
			t.Errorf("%d lost, %d heard twice: %q", missing, twice, w.said())
		}
	})
}

func TestMoreServersThanConnectionsAreAllowedEndTheAdapterWithASentence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := inManyServers(t, 17)
		err := discord.New(w.options()).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "it needs 17 connections to Discord, and Lilac keeps at most 16") {
			t.Errorf("it ended with %v", err)
		}
	})
}
