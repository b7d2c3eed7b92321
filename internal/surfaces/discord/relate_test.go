package discord_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/core/entity"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// Discord's client sends a forward and the comment on it as two messages, and files often come alone.
func TestACommentRepliesToWhatCameWithoutWords(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	original, _ := w.server.Message(w.channel, w.server.Say(w.channel, w.bob, "the disk is full", discordtest.SayOptions{}))
	forward := func() string {
		return w.server.Say(w.channel, w.ann, "", discordtest.SayOptions{Rich: discordtest.Rich{Forward: &original}})
	}
	if f := w.factsOf(forward()); !f.ForwardOnly {
		t.Error("a forward is not known as one without words")
	}
	for _, c := range []struct {
		name string
		say  func() (text, want string)
	}{
		{"a comment", func() (string, string) {
			f := forward()
			w.server.Say(w.channel, w.ann, "why?", discordtest.SayOptions{})
			return "why?", f
		}},
		{"a comment on a file", func() (string, string) {
			f := w.server.Say(w.channel, w.ann, "", discordtest.SayOptions{Files: []discordtest.File{{Name: "a.png", ContentType: "image/png", Data: []byte("x")}}})
			w.server.Say(w.channel, w.ann, "what is it?", discordtest.SayOptions{})
			return "what is it?", f
		}},
		{"a second message", func() (string, string) {
			w.server.Say(w.channel, w.ann, "anybody?", discordtest.SayOptions{})
			return "anybody?", ""
		}},
		{"somebody else's message", func() (string, string) {
			forward()
			w.server.Say(w.channel, w.bob, "hm", discordtest.SayOptions{})
			return "hm", ""
		}},
		{"a reply to another message", func() (string, string) {
			forward()
			w.server.Say(w.channel, w.ann, "this one", discordtest.SayOptions{ReplyTo: original.ID})
			return "this one", original.ID
		}},
	} {
		text, want := c.say()
		m, f := w.hears(text)
		cached, err := w.cached(w.channel, m.MessageID)
		if err != nil || f.ReplyToMessageID != want || cached.ReplyTo != want {
			t.Errorf("%s replies to %q, in the cache to %q, want %q (%v)", c.name, f.ReplyToMessageID, cached.ReplyTo, want, err)
		}
	}
	f := forward()
	id := w.server.Say(w.channel, w.ann, "whi?", discordtest.SayOptions{})
	w.hears("whi?")
	w.server.Edit(w.channel, id, "which?")
	w.await("the edit", func() bool { m, err := w.cached(w.channel, id); return err == nil && m.Text == "which?" })
	if m, err := w.cached(w.channel, id); err != nil || m.ReplyTo != f {
		t.Errorf("after an edit, the comment replies to %q, want %q (%v)", m.ReplyTo, f, err)
	}
}

// PluralKit and similar programs post what a person wrote in another name, and delete the original.
func TestACopyNamesTheMessageThatItReplaces(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	hook := w.server.User("Alter")
	proxy := discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true, Proxy: true}}
	quoting := discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true, Proxy: true, Embeds: json.RawMessage(`[{"type":"rich","author":{"name":"Bob ↩️"},"description":"the disk is full"}]`)}}
	for i, c := range []struct {
		name, original, text string
		o                    discordtest.SayOptions
		want                 bool
	}{
		{"the same text", "who is there? 0", "who is there? 0", proxy, true},
		{"without its marks", "A: who is there? 1", "who is there? 1", proxy, true},
		{"another text", "who is there? 2", "nobody 2", proxy, false},
		{"a part of a long text", fmt.Sprintf("%0150d who? 3", 0), "who? 3", proxy, false},
		{"a mention in front", "<@1> A: who is there? 5", "<@1> who is there? 5", proxy, true},
		{"a mention alone", "<@1>", "<@1>", proxy, true},
		{"few words of a question", "why is it down? 7", "down? 7", proxy, false},
		{"the copy of a reply", "A: who is there? 8", "who is there? 8", quoting, true},
		{"a webhook of people", "who is there? 4", "who is there? 4 ", discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true}}, false},
	} {
		original := w.server.Say(w.channel, w.ann, c.original, discordtest.SayOptions{})
		copied := w.server.Say(w.channel, hook, c.text, c.o)
		w.server.Delete(w.channel, original)
		f := w.factsOf(copied)
		if got := f.CopyOf == original; got != c.want || f.CopyOf != "" && !got {
			t.Errorf("%d, %s: a copy of %q, the original is %s", i, c.name, f.CopyOf, original)
		}
	}
	w.server.Say(w.channel, w.ann, "A: again", discordtest.SayOptions{})
	second := w.server.Say(w.channel, w.ann, "A: again", discordtest.SayOptions{})
	if f := w.factsOf(w.server.Say(w.channel, hook, "again", proxy)); f.CopyOf != second {
		t.Errorf("of two equal messages, it is a copy of %q, want the newer one, %s", f.CopyOf, second)
	}
}

// The program may delete the original before it posts the copy. A webhook cannot reply, and its mentions may be
// switched off, so the copy has those of the original.
func TestACopyMayComeAfterTheDeletionOfItsOriginal(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	asked := w.server.Say(w.channel, w.bob, "shall we?", discordtest.SayOptions{})
	original := w.server.Say(w.channel, w.ann, "A: "+w.server.Self().Mention()+" yes", discordtest.SayOptions{ReplyTo: asked})
	other := w.server.Channel(w.guild, "other")
	w.server.Delete(w.channel, original)
	proxy := discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true, Proxy: true}}
	hook, text := w.server.User("Alter"), w.server.Self().Mention()+" yes"
	elsewhere, copied := w.server.Say(other, hook, text, proxy), w.server.Say(w.channel, hook, text, proxy)
	f := w.factsOf(copied)
	if f.CopyOf != original || !f.MentionsBot || f.ReplyToMessageID != asked {
		t.Errorf("the copy of %s has %+v", original, f)
	}
	if f := w.factsOf(elsewhere); f.CopyOf != "" {
		t.Errorf("in another channel: %+v", f)
	}
}

// The names of roles are known before anybody mentions one, and after a change.
func TestTheNamesOfRolesAreKnown(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	role := w.server.Role(w.guild, 0)
	w.server.NameRole(w.guild, role, "on call")
	w.connected(w.options())
	in := func(text string) (out string) {
		if err := w.db.Read(context.Background(), func(q db.Queryer) error {
			out = entity.Directory{Cache: store.SurfaceCache{}, Platform: discord.Platform}.Mapper(q, nil, nil).In(text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, name := range []string{"on call", "off duty"} {
		w.server.NameRole(w.guild, role, name)
		want := "ask @" + strings.ReplaceAll(name, " ", "_") + "-" + role
		w.await("the name "+name, func() bool { return in("ask <@&"+role+">") == want })
	}
}

// A forward brings the names of the people whom it mentions.
func TestAForwardBringsTheNamesOfThePeopleInIt(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"author":{"id":%q},"id":"1900000000000000321","channel_id":%q,"guild_id":%q,"content":"","message_reference":{"type":1},
		"message_snapshots":[{"message":{"content":"ask <@31>","mentions":[{"id":"31","username":"carol","global_name":"Carol"}]}}]}`, w.ann.ID, w.channel, w.guild)))
	w.hears("[forwarded message]\nask <@31>")
	m, err := w.cached(w.channel, "1900000000000000321")
	if err != nil || len(m.Mentions) != 1 || m.Mentions[0].Name != "Carol" || m.Platform != discord.Platform {
		t.Errorf("the forward mentions %+v (%v)", m.Mentions, err)
	}
}

// session reads a channel from the cache.
func (w *world) session(channel string) (s surface.Session) {
	w.t.Helper()
	if err := w.db.Read(context.Background(), func(q db.Queryer) (err error) {
		s, err = store.SurfaceCache{}.Session(q, discord.Platform, channel)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// The store knows which threads are locked, also of a thread that the gateway described before.
func TestALockedThreadIsKnown(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	thread := w.server.Thread(w.channel, "plans")
	w.server.Lock(thread, true)
	w.connected(w.options())
	for _, locked := range []bool{true, false, true} {
		w.server.Lock(thread, locked)
		text := fmt.Sprint("locked: ", locked, w.marks)
		w.marks++
		w.server.Say(thread, w.ann, text, discordtest.SayOptions{})
		w.hears(text)
		if s := w.session(thread); s.Locked != locked {
			t.Errorf("the thread is locked: %v, want %v", s.Locked, locked)
		}
	}
}

// The store knows where the bot may not write: from the start, and after each change.
func TestWhereTheBotMayNotWriteIsKnown(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t, discordtest.Options{})
	quiet := w.server.Channel(w.guild, "announcements")
	w.server.Deny(quiet, w.guild, discordtest.SendMessages)
	w.server.Deny(w.channel, w.guild, discordtest.SendInThreads)
	w.connected(w.options())
	is := func(channel string, muted, threads bool) {
		t.Helper()
		w.await(fmt.Sprint("the channel is muted: ", muted, threads), func() bool {
			s := w.session(channel)
			return s.Muted == muted && s.ThreadsMuted == threads
		})
	}
	w.caughtUp()
	is(quiet, true, false)
	is(w.channel, false, true)
	w.server.Permit(quiet, w.guild, discordtest.SendMessages)
	w.caughtUp()
	if w.session(quiet).Muted {
		t.Error("whoever asks before the permissions are read again gets no answer")
	}
	w.server.Deny(w.channel, w.guild, discordtest.SendMessages)
	is(w.channel, true, true)
	w.server.Role(w.guild, discordtest.Administrator, w.server.Self().ID)
	is(w.channel, false, false)
}

// Who asks about a comment asks about its forward, too.
func TestAskingAboutACommentKeepsItsForward(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	d := &desk{}
	o := w.options()
	o.Interactions = d
	w.connected(o)
	w.knowsCommands()
	original, _ := w.server.Message(w.channel, w.server.Say(w.channel, w.bob, "the disk is full", discordtest.SayOptions{}))
	forward := w.server.Say(w.channel, w.bob, "", discordtest.SayOptions{Rich: discordtest.Rich{Forward: &original}})
	comment := w.server.Say(w.channel, w.bob, "why?", discordtest.SayOptions{})
	w.hears("why?")
	w.answered(w.server.Menu(w.channel, comment, w.ann.ID, "Ask about this"))
	cached, err := w.cached(w.channel, comment)
	if _, complete := surface.FactsOf(discord.Platform, cached.Raw); err != nil || cached.ReplyTo != forward || !complete {
		t.Errorf("the cache has %+v, %v", cached, err)
	}
	if _, asked := d.done(); len(asked) != 1 || asked[0].ReplyTo != forward {
		t.Errorf("asked about %+v", asked)
	}
}
