package discord_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/effort"
)

// However many messages others have posted since, FindNonce finds the bot's message or returns an
// error that says the outcome is uncertain. If it reported "not found" instead, the message would be
// sent twice.
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
				stop() // so that the gateway does not deliver the message
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

// Without READ_MESSAGE_HISTORY, Discord returns an empty history instead of an error. Messages that
// the gateway delivered are then sufficient evidence. Until the gateway has replayed what the bot
// missed, the outcome is uncertain.
func TestWithoutTheHistoryTheGatewayIsAsked(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	w.server.Deny(w.channel, w.guild, discordtest.ReadMessageHistory)
	a, stop := w.connected(w.options())
	stop() // as if the process was killed
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

// The missed events are stored while it looks for the message, right after it did not find it. With the
// answer that there is none, the outbox would send it again.
func TestAMessageThatIsStoredDuringTheSearchIsNotDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, discordtest.Options{Memory: true})
		w.server.Deny(w.channel, w.guild, discordtest.ReadMessageHistory)
		a, stop := w.connected(w.options())
		stop()
		w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
		if _, err := a.Send(t.Context(), say(w, "hi", "act-1")); fault.KindOf(err) != fault.Timeout {
			t.Fatal(err)
		}
		o := w.options()
		o.Tables.Sends = &watchedSends{SendTable: o.Tables.Sends, looked: w.caughtUp}
		a, _ = w.run(o)
		began := time.Now().Add(-time.Minute)
		if _, found, err := a.FindNonce(t.Context(), w.channel, "act-1", began); found || fault.KindOf(err) != fault.Unavailable {
			t.Errorf("while the missed events are stored: %v, %v, want that Discord is not available", found, err)
		}
		if _, found, err := a.FindNonce(t.Context(), w.channel, "act-1", began); !found {
			t.Errorf("afterwards, the message is not found: %v", err)
		}
	})
}

// watchedSends calls looked after each look at the table of nonces.
type watchedSends struct {
	discord.SendTable
	looked func()
}

func (s *watchedSends) NonceMessage(q db.Queryer, channelID, nonce string) (string, error) {
	id, err := s.SendTable.NonceMessage(q, channelID, nonce)
	s.looked()
	return id, err
}
