package discord_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/event"
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

// opened lists the connections whose sessions began, as number and count.
func opened(w *world) (out []string) {
	for _, i := range w.server.Identifies() {
		if i.Accepted {
			out = append(out, fmt.Sprint(i.Shard))
		}
	}
	return out
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestABotInTooManyServersForOneConnectionOpensMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, 3)
		o := w.options()
		o.AllowDMs = true
		_, stop := w.connected(o)
		if got, want := opened(w), []string{"[0 3]", "[1 3]", "[2 3]"}; !slices.Equal(sorted(got), want) {
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
		if got := w.said(); !slices.Equal(sorted(got), sorted(want)) {
			t.Errorf("heard %q, want %q", got, want)
		}
		if n := len(opened(w)); n != 3 {
			t.Errorf("%d sessions began, want 3: a restart resumes all of them", n)
		}
	})
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

// outgrow posts messages while the bot gets into too many servers for its connection, and returns how many
// were lost and how many were duplicated.
func outgrow(t *testing.T, change func(*discord.Options)) (missing, twice int) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, 1)
		o := w.options()
		change(&o)
		_, stop := w.connected(o)
		defer stop()
		say := func(n int) {
			w.server.Say(channels[0], w.ann, fmt.Sprint("message ", n), discordtest.SayOptions{})
		}
		say(0)
		w.hears("message 0")
		time.Sleep(time.Millisecond)
		w.server.Guild("another", w.ann) // the session goes on, a new one would have too many servers
		say(1)
		w.server.DropGateway(discordtest.Invalid)
		say(2)
		w.await("two connections are open", func() bool { return len(opened(w)) == 3 })
		say(3)
		w.hears("message 3")
		w.nothingLeft()
		missing, twice = lost(4, w.said())
	})
	return missing, twice
}

func TestNoMessageIsLostWhenTheBotOutgrowsItsConnection(t *testing.T) {
	if missing, twice := outgrow(t, func(*discord.Options) {}); missing+twice > 0 {
		t.Errorf("%d lost, %d heard twice", missing, twice)
	}
	if missing, _ := outgrow(t, func(o *discord.Options) { o.BackfillMessages = 0 }); missing == 0 {
		t.Error("control: without the histories nothing was lost: the test shows nothing")
	}
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

// No history shows a reaction, and a new session does not repeat it. Here it waits behind a message whose
// channel Discord describes slowly, while the bot outgrows its connection.
func TestAReactionThatWaitsToBeStoredSurvivesTheDivision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, channels := inManyServers(t, 1)
		thread := w.server.Thread(w.channel, "talk")
		first := w.server.Say(thread, w.ann, "in the thread", discordtest.SayOptions{})
		w.server.Archive(thread) // the gateway announces only active threads
		o := w.options()
		o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.channel}
		_, stop := w.connected(o)
		defer stop()
		w.caughtUp()
		marks := len(w.published(event.AdapterReactionAdded))
		id := w.server.Say(channels[0], w.ann, "hello", discordtest.SayOptions{})
		w.hears("hello")
		w.server.Guild("another", w.ann)
		w.server.Fail("GET /channels/{channel}", discordtest.Fault{Delay: 25 * time.Second}, 1)
		w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"author":{"id":%q},"content":"in the thread"}`, first, thread, w.guild, w.ann.ID)))
		w.server.React(w.channel, id, w.ann, "👍")
		time.Sleep(time.Second) // on the clock of the bubble, because the gateway sends with a latency
		synctest.Wait()         // until the connection has received both
		if len(w.published(event.AdapterReactionAdded)) > marks {
			t.Fatal("control: the reaction does not wait")
		}
		w.server.DropGateway(discordtest.Invalid)
		w.await("more connections are open", func() bool { return len(opened(w)) > 1 })
		w.await("the reaction is published", func() bool { return len(w.published(event.AdapterReactionAdded)) > marks })
		w.hears("in the thread")
	})
}
