package discord_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/discord"
	"lilac/internal/discordtest"
	"lilac/internal/event"
	"lilac/internal/surface"
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
	if diff := cmp.Diff(surface.Facts{MentionsBot: true, GuildID: w.guild}, f); diff != "" {
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

func TestOnlyWhoTheConfigurationAllowsIsHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	other := w.server.Channel(w.guild, "other")
	thread := w.server.Thread(w.channel, "thread")
	elsewhere := w.server.Channel(w.server.Guild("elsewhere", w.ann), "general")
	ann, bob := w.server.DM(w.ann), w.server.DM(w.bob)
	for _, c := range []struct {
		name  string
		allow discord.Config
		want  []string
	}{
		{"nobody", discord.Config{}, nil},
		{"a channel and its threads", discord.Config{AllowedChannelIDs: []string{w.channel}}, []string{w.channel, thread}},
		{"a thread alone", discord.Config{AllowedChannelIDs: []string{thread}}, []string{thread}},
		{"a server", discord.Config{AllowedGuildIDs: []string{w.guild}}, []string{w.channel, other, thread}},
		{"a person", discord.Config{AllowedUserIDs: []string{w.ann.ID}}, []string{ann}},
		{"private messages", discord.Config{AllowDMs: true}, []string{ann, bob}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := w.options()
			o.AllowedGuildIDs = c.allow.AllowedGuildIDs
			o.AllowedChannelIDs, o.AllowedUserIDs, o.AllowDMs = c.allow.AllowedChannelIDs, c.allow.AllowedUserIDs, c.allow.AllowDMs
			a, stop := w.connected(o)
			defer stop()
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

func TestFilesAreKeptAndAChainOfRepliesIsCompleted(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	// Said before anybody listened, so the cache knows none of it.
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
