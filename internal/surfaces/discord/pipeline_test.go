package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

func TestWhatPeopleSayBecomesEventsWithTheirFacts(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	self, _ := a.Self()

	mention := fmt.Sprintf("<@%s> hello", self.ID)
	id := w.server.Say(w.channel, w.ann, mention, discordtest.SayOptions{})
	m, f := w.hears(mention)
	want := event.AdapterMessage{Platform: "discord", ChannelID: w.channel, ChannelName: "general", MessageID: id, UserID: w.ann.ID, UserName: "Ann", Text: mention, TS: m.TS, Raw: m.Raw}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(surface.Facts{MentionsBot: true, GuildID: w.guild, Content: mention}, f); diff != "" {
		t.Error(diff)
	}

	reply := w.server.Say(w.channel, w.bob, "and me", discordtest.SayOptions{ReplyTo: id})
	if _, f := w.hears("and me"); f.ReplyToBot || f.MentionsBot || f.ReplyToMessageID != id {
		t.Errorf("a reply to a person: %+v", f)
	}
	w.server.Edit(w.channel, reply, "and me, please")
	w.await("the edit", func() bool { return len(w.published(event.AdapterMessageUpdated)) == 1 })
	if m, err := w.cached(w.channel, reply); err != nil || m.Text != "and me, please" || m.EditedAt == 0 {
		t.Errorf("after the edit the cache holds %+v (%v)", m, err)
	}
	w.server.React(w.channel, reply, w.ann, "👍")
	w.server.Unreact(w.channel, reply, w.ann, "👍")
	w.server.Delete(w.channel, reply)
	w.await("the deletion", func() bool { return len(w.published(event.AdapterMessageDeleted)) == 1 })
	if added, removed := w.published(event.AdapterReactionAdded), w.published(event.AdapterReactionRemoved); len(added) != 1 || len(removed) != 1 {
		t.Errorf("reactions: %v, %v", added, removed)
	}
	if _, err := w.cached(w.channel, reply); err == nil {
		t.Error("a deleted message is still in the cache")
	}
}

func TestAReplyToUsIsAReplyToTheBotAndNoMention(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	ours, err := a.Send(t.Context(), surface.Send{ChannelID: w.channel, Content: surface.Content{Text: "I am here"}, Nonce: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if !ours.FromSelf {
		t.Errorf("our message: %+v", ours)
	}
	w.server.Say(w.channel, w.ann, "good", discordtest.SayOptions{ReplyTo: ours.ID})
	if _, f := w.hears("good"); !f.ReplyToBot || f.MentionsBot {
		t.Errorf("facts of a reply to us: %+v", f)
	}
	if _, f := w.hears("I am here"); !f.AuthorIsSelf {
		t.Errorf("facts of our own: %+v", f)
	}
	if got := w.log.String(); got != "" {
		t.Errorf("it logged %s", got)
	}
}

// answering is a table in which every nonce of the bot belongs to an answer.
type answering struct{ discord.SendTable }

func (answering) AnsweredRequest(_ db.Queryer, _, nonce string) (string, error) {
	return "r-" + nonce, nil
}

// A reply to an answer can arrive before the call that sent the answer returns. The adapter must
// already know that the message is an answer.
func TestAnAnswerIsKnownAsOneWhenTheGatewayTellsOfIt(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	o.Tables.Sends = answering{o.Tables.Sends}
	a, _ := w.connected(o)
	w.server.FailNext("POST /channels/{channel}/messages", discordtest.CutAfter)
	if _, err := a.Send(t.Context(), say(w, "So far", "n1")); fault.KindOf(err) != fault.Timeout {
		t.Fatal(err)
	}
	told, _ := w.hears("So far")
	if m, err := w.cached(w.channel, told.MessageID); err != nil || m.RequestID != "r-n1" {
		t.Errorf("the cache holds %+v (%v)", m, err)
	}
}

func TestOnlyWhoTheConfigurationAllowsIsHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	other := w.server.Channel(w.guild, "other")
	thread := w.server.Thread(w.channel, "thread")
	elsewhere := w.server.Channel(w.server.Guild("elsewhere", w.ann), "general")
	ann, bob := w.server.DM(w.ann), w.server.DM(w.bob)
	for _, c := range []struct {
		name  string
		allow discord.Allowed
		want  []string
	}{
		{"nobody", discord.Allowed{}, nil},
		{"a channel and its threads", discord.Allowed{AllowedChannelIDs: []string{w.channel}}, []string{w.channel, thread}},
		{"a thread alone", discord.Allowed{AllowedChannelIDs: []string{thread}}, []string{thread}},
		{"a server", discord.Allowed{AllowedGuildIDs: []string{w.guild}}, []string{w.channel, other, thread}},
		{"a person", discord.Allowed{AllowedUserIDs: []string{w.ann.ID}}, []string{ann}},
		{"private messages", discord.Allowed{AllowDMs: true}, []string{ann, bob}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := w.options()
			o.Allowed = c.allow
			a, stop := w.connected(o)
			defer stop()
			if c.want == nil && !strings.Contains(w.log.String(), "listens to nobody") {
				t.Error("it does not say that it hears nobody")
			}
			var want []string
			for _, channel := range []string{w.channel, other, thread, elsewhere, ann, bob} {
				author := w.ann
				if channel == bob {
					author = w.bob
				}
				text := c.name + " in " + channel
				w.server.Say(channel, author, text, discordtest.SayOptions{})
				for _, allowed := range c.want {
					if allowed == channel {
						want = append(want, text)
						w.hears(text)
					}
				}
			}
			switch {
			case c.want == nil: // no event would show that the adapter has processed everything
			case c.want[0] == ann:
				w.caughtUpIn(ann, "")
			default:
				w.caughtUpIn(c.want[0], w.guild)
			}
			var got []string
			for _, text := range w.said() {
				if len(text) > len(c.name) && text[:len(c.name)+4] == c.name+" in " {
					got = append(got, text)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for _, channel := range []string{w.channel, other, thread, elsewhere, ann, bob} {
				wanted := false
				for _, allowed := range c.want {
					wanted = wanted || allowed == channel
				}
				if allowed, err := a.Allowed(t.Context(), channel); err != nil || allowed != wanted {
					t.Errorf("%s is allowed: %v, %v", channel, allowed, err)
				}
			}
		})
	}
}

func TestReactionsThatAreClearedAreRemovals(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	id := w.server.Say(w.channel, w.ann, "hello", discordtest.SayOptions{})
	for _, emoji := range []string{"👍", "👎"} {
		w.server.React(w.channel, id, w.ann, emoji)
	}
	w.server.ClearReactions(w.channel, id, "👍")
	w.server.ClearReactions(w.channel, id, "")
	w.await("both removals", func() bool { return len(w.published(event.AdapterReactionRemoved)) == 2 })
	for i, want := range []string{"👍", ""} {
		if got := w.published(event.AdapterReactionRemoved)[i].(event.AdapterReaction); got.Reaction != want || got.UserID != "" || got.MessageID != id {
			t.Errorf("removal %d: %+v", i, got)
		}
	}
}

// Discord may fail to say which channel an unknown thread belongs to. A message in that thread must
// not be lost; it waits until the channel is known.
func TestAMessageWaitsUntilItsChannelIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		w := newWorld(t, discordtest.Options{Memory: true})
		o := w.options()
		o.AllowedGuildIDs, o.AllowedChannelIDs = nil, []string{w.channel}
		thread := w.server.Thread(w.channel, "talk")
		id := w.server.Say(thread, w.ann, "hello", discordtest.SayOptions{})
		w.server.Archive(thread) // the gateway announces only active threads
		w.connected(o)
		w.server.Fail("GET /channels/{channel}", discordtest.ServerError, 40)
		w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"author":{"id":%q},"content":"hello"}`, id, thread, w.guild, w.ann.ID)))
		for began := time.Now(); len(w.said()) == 0; time.Sleep(time.Second) {
			if time.Since(began) > time.Hour {
				t.Fatal("it was never heard")
			}
		}
		w.hearsOnly("hello")
	})
}

func TestFilesAreKeptAndAChainOfRepliesIsCompleted(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	// Posted before the adapter connected, so the cache does not contain these messages.
	first := w.server.Say(w.channel, w.ann, "one", discordtest.SayOptions{})
	second := w.server.Say(w.channel, w.bob, "two", discordtest.SayOptions{ReplyTo: first})
	third := w.server.Say(w.channel, w.ann, "three", discordtest.SayOptions{ReplyTo: second})
	w.connected(w.options())
	w.server.Say(w.channel, w.bob, "four", discordtest.SayOptions{ReplyTo: third, Files: []discordtest.File{{Name: "a.txt", ContentType: "text/plain", Data: []byte("contents")}}})
	m, f := w.hears("four")
	if len(f.Attachments) != 1 || f.Attachments[0].Blob == "" {
		t.Fatalf("attachments: %+v", f.Attachments)
	}
	if data, err := w.blobs.Get(t.Context(), f.Attachments[0].Blob); err != nil || string(data) != "contents" {
		t.Errorf("kept %q, %v", data, err)
	}
	for _, id := range []string{first, second, third, m.MessageID} {
		if _, err := w.cached(w.channel, id); err != nil {
			t.Errorf("the chain lacks %s: %v", id, err)
		}
	}
	w.hearsOnly("four")
}
