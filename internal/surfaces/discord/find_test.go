package discord_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
)

// However much others have said since, a message of ours is found, or it is said
// that nobody knows: not to find it means to send it again.
func TestAMessageIsFoundAmongManyOrNobodyKnows(t *testing.T) {
	for name, c := range map[string]struct {
		since     int
		sent      bool
		found     bool
		uncertain bool
	}{
		"sent":                 {since: 520, sent: true, found: true},
		"long ago":             {since: 1100, sent: true, found: true},
		"control: never sent":  {since: 520},
		"never sent, too many": {since: 1100, uncertain: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true})
				o := w.options()
				s := say(w, "hi there", "act-1")
				o.Tables.Sends = &planned{SendTable: o.Tables.Sends, send: &s}
				a, stop := w.connected(o)
				stop() // so the gateway tells of nothing
				before := time.Now()
				w.server.Say(w.channel, w.ann, "a question", discordtest.SayOptions{})
				if c.sent {
					w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
					if _, err := a.Send(t.Context(), s); fault.KindOf(err) != fault.Timeout {
						t.Fatal(err)
					}
				}
				for i := range c.since {
					w.server.Say(w.channel, w.ann, fmt.Sprint("talk ", i), discordtest.SayOptions{})
				}
				m, found, err := a.FindNonce(t.Context(), w.channel, "act-1", before.Add(-time.Minute))
				if found != c.found || found && m.Text != "hi there" || (fault.KindOf(err) == fault.Unavailable) != c.uncertain {
					t.Errorf("found %v, %q, %v", found, m.Text, err)
				}
			})
		})
	}
}

// Who may not read histories is told of none, as if nothing was there. What the
// gateway has told of is enough; until it has told again what was not heard, nobody
// knows.
func TestWithoutTheHistoryTheGatewayIsAsked(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.server.Deny(w.channel, w.guild, discordtest.ReadMessageHistory)
	a, stop := w.connected(w.options())
	stop() // as if it was killed
	w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
	if _, err := a.Send(t.Context(), say(w, "hi", "act-1")); fault.KindOf(err) != fault.Timeout {
		t.Fatal(err)
	}
	w.server.RefuseGateway(3)
	a, _ = w.run(w.options())
	began := time.Now().Add(-time.Minute)
	w.await("it is found", func() bool {
		m, found, err := a.FindNonce(t.Context(), w.channel, "act-1", began)
		if !found && fault.KindOf(err) != fault.Unavailable {
			t.Fatalf("before the gateway told of it: %v, %v", found, err)
		}
		return found && m.FromSelf && m.Ref() == (event.MessageRef{Platform: "discord", ChannelID: w.channel, MessageID: m.ID})
	})
}
