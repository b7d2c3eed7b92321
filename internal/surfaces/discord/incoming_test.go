package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/testkit/discordtest"
)

// If the connection ends while the adapter looks up details of a message, the message must not be
// lost: its sequence number is already acknowledged, so a resume does not replay it.
func TestAMessageOutlivesTheConnectionItCameBy(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		t.Run(fmt.Sprintf("dropped=%v", dropped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true, IdentifyEvery: 5 * time.Second})
				first := w.server.Say(w.channel, w.ann, "one", discordtest.SayOptions{})
				second := w.server.Say(w.channel, w.bob, "two", discordtest.SayOptions{ReplyTo: first})
				w.connected(w.options())
				w.caughtUp()
				w.server.FailNext("GET /channels/{channel}/messages/{message}", discordtest.Fault{Delay: 5 * time.Second})
				w.server.Say(w.channel, w.bob, "three", discordtest.SayOptions{ReplyTo: second})
				if dropped {
					time.Sleep(time.Second)
					w.server.DropGateway(discordtest.Reconnect)
				}
				w.hears("three")
				if _, err := w.cached(w.channel, first); err != nil {
					t.Errorf("the chain that it ends is not complete: %v", err)
				}
			})
		})
	}
}

// Whether a message is addressed to the bot depends on its channel, so the adapter must load the
// channel first, however slow that is.
func TestAMessageIsHeardThoughItsChannelIsLearntSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const threads = 40 // more than the number of parallel lookups
		w := newWorld(t, discordtest.Options{Memory: true, IdentifyEvery: 5 * time.Second})
		o := w.options()
		o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.channel}
		var said [threads]json.RawMessage
		for i := range said {
			thread := w.server.Thread(w.channel, fmt.Sprint("talk ", i))
			text := fmt.Sprint("hello ", i)
			id := w.server.Say(thread, w.ann, text, discordtest.SayOptions{})
			w.server.Archive(thread)
			said[i] = json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"author":{"id":%q},"content":%q}`, id, thread, w.guild, w.ann.ID, text))
		}
		w.connected(o)
		w.caughtUp()
		w.server.Fail("GET /channels/{channel}", discordtest.Fault{Delay: 20 * time.Second}, threads)
		for _, m := range said {
			w.server.Tell("MESSAGE_CREATE", m)
		}
		time.Sleep(time.Minute) // several heartbeats, whose acknowledgements queue behind the messages
		w.server.DropGateway(discordtest.Reconnect)
		time.Sleep(10 * time.Minute)
		if got := len(w.said()); got != threads {
			t.Errorf("%d of %d messages were heard", got, threads)
		}
		if strings.Contains(w.log.String(), "a heartbeat was not answered") {
			t.Error("the connection was taken for dead because we were slow")
		}
	})
}
