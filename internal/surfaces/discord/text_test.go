package discord_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
)

// Content without message text is converted to text: embeds of bots, forwards, stickers and polls.
// Link previews are not, because the user did not write them. Of a field of an unexpected type, only the
// field is lost.
func TestWhatIsSaidWithoutWordsIsHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	for i, c := range []struct{ message, want string }{
		{`"content":"","embeds":[{"title":"Build failed","description":"main is red","fields":[{"name":"Commit","value":"1a2b3c"}]}]`, "Build failed\nmain is red\nCommit: 1a2b3c"},
		{`"content":"look at https://example.org","embeds":[{"title":"Example","description":"A preview"}]`, "look at https://example.org"},
		{`"content":"","message_snapshots":[{"message":{"content":"","embeds":[{"description":"The disk is full"}]}}]`, "The disk is full"},
		{`"content":"","message_reference":{"type":1},"message_snapshots":[{"message":{"content":"Deployed https://x.example","embeds":[{"type":"rich","title":"Build 8","description":"green"},{"type":"link","title":"a preview"}],"components":[{"type":1,"components":[{"type":2,"style":1,"label":"Undo"}]}]}}]`, "[forwarded message]\nDeployed https://x.example\nBuild 8\ngreen\n[button: Undo]"},
		{`"content":"and this?","message_snapshots":[{"message":{"content":"It rains."}}]`, "and this?\nIt rains."},
		{`"content":"look","message_reference":{"type":1,"message_id":"5","channel_id":"6"},"message_snapshots":[{"message":{"content":"It snows.","sticker_items":[{"name":"flake"}]}}]`, "look\n[forwarded message]\nIt snows.\n[sticker: flake]"},
		{
			`"content":"deployed","webhook_id":"12","embeds":[{"type":"rich","author":{"name":"CI"},"title":"Build 7","url":"https://ci.example","description":"green","footer":{"text":"in 5 s"},"image":{"url":"https://ci.example/g.png"}},{"type":"link","title":"a preview"}]`,
			"deployed\nCI\nBuild 7 (https://ci.example)\ngreen\n[image: https://ci.example/g.png]\nin 5 s",
		},
		{
			`"content":"","flags":32768,"components":[{"type":17,"components":[{"type":10,"content":"## Outage"},{"type":9,"components":[{"type":10,"content":"The mail is down."}],"accessory":{"type":11,"description":"a graph","media":{"url":"https://x.example/1.png"}}},
			{"type":12,"items":[{"media":{"url":"https://x.example/2.png"},"description":"a map"}]},{"type":13,"file":{"url":"https://x.example/log.txt"},"name":"log.txt"},{"type":14},{"type":1,"components":[{"type":2,"style":5,"label":"Open","url":"https://x.example"},{"type":2,"style":1,"label":"Claim","custom_id":"c"}]},
			{"type":1,"components":[{"type":3,"placeholder":"Severity","options":[{"label":"low"},{"label":"high"}]}]}]}]`,
			"## Outage\nThe mail is down.\n[image: a graph https://x.example/1.png]\n[image: a map https://x.example/2.png]\n[file: log.txt https://x.example/log.txt]\n[button: Open (https://x.example)]\n[button: Claim]\n[menu: Severity low / high]",
		},
		{`"content":"","flags":8192,"attachments":[{"id":"4","filename":"voice-message.ogg","content_type":"audio/ogg","duration_secs":12.4,"waveform":"AAA"}]`, "[voice message, 12 seconds]"},
		{
			`"content":"which one?","attachments":[{"id":"4","filename":"a.png","content_type":"image/png","description":"two doors, one is open"},{"id":"5","filename":".png","title":"扉","content_type":"image/png","description":"closed"},{"id":"6","filename":"c.png","content_type":"image/png"}]`,
			"which one?\n[description of a.png: two doors, one is open]\n[description of 扉.png: closed]",
		},
		{`"content":"","poll":{"question":{"text":"Tea?"},"answers":[{"answer_id":1,"poll_media":{"text":"yes","emoji":{"name":"🍵"}}},{"answer_id":2,"poll_media":{"text":"no"}}],"results":{"answer_counts":[{"id":1,"count":3}]}}`, "[poll: Tea? (🍵 yes: 3 / no: 0)]"},
		{`"content":"odd fields","embeds":7,"components":"none","poll":[],"sticker_items":{},"attachments":null,"flags":"x","mentions":[7],"message_reference":"y","reactions":{"a":1}`, "odd fields"},
		{`"content":["odd"],"author":{"id":"31","bot":"yes","username":5},"embeds":[{"title":"kept","description":8,"fields":[{"name":"a","value":"b"},"c"]}]`, "kept\na: b"},
		{`"content":"","sticker_items":[{"name":"wave"}]`, "[sticker: wave]"},
		{`"content":"","poll":{"question":{"text":"Which one?"},"answers":[{"answer_id":1,"poll_media":{"text":"red"}},{"answer_id":2,"poll_media":{"text":"blue"}}]}`, "[poll: Which one? (red / blue)]"},
	} {
		id := fmt.Sprint(1900000000000000000 + i)
		w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"author":{"id":%q},"id":%q,"channel_id":%q,"guild_id":%q,%s}`, w.ann.ID, id, w.channel, w.guild, c.message)))
		if m, _ := w.hears(c.want); m.MessageID != id {
			t.Errorf("%q was heard as %s, want %s", c.want, m.MessageID, id)
		}
	}
}

// IDs are numbers on some servers of the protocol. They are texts on Discord.
func TestNumericIDsAreHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"author":{"id":%s},"id":1900000000000000123,"channel_id":%s,"guild_id":%s,"content":"hi"}`, w.ann.ID, w.channel, w.guild)))
	if m, _ := w.hears("hi"); m.MessageID != "1900000000000000123" || m.ChannelID != w.channel {
		t.Errorf("heard %s in %s", m.MessageID, m.ChannelID)
	}
}

// A field of an unexpected type in the gateway's first event does not keep the bot offline.
func TestAnOddFieldOfReadyIsIgnored(t *testing.T) {
	w := newWorld(t, discordtest.Options{ReadyFields: map[string]any{"application": "odd"}})
	w.connected(w.options())
	w.server.Say(w.channel, w.ann, "hi", discordtest.SayOptions{})
	w.hears("hi")
}

// A program that answers a command later replaces "… is thinking" without an edit.
func TestALateAnswerOfAProgramIsHeard(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	tell := func(kind, rest string) {
		w.server.Tell(kind, json.RawMessage(fmt.Sprintf(`{"author":{"id":"31","bot":true},"id":"1900000000000000124","channel_id":%q,"guild_id":%q,%s}`, w.channel, w.guild, rest)))
	}
	tell("MESSAGE_CREATE", `"type":20,"flags":128,"content":""`)
	tell("MESSAGE_UPDATE", `"type":20,"flags":0,"content":"The weather is fine.","edited_timestamp":null`)
	w.await("the answer is in the cache", func() bool {
		m, err := w.cached(w.channel, "1900000000000000124")
		return err == nil && m.Text == "The weather is fine."
	})
}

// Reactions belong to the message in the cache, so that a reply chain can show them.
func TestReactionsAreCountedOnCachedMessages(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	a, _ := w.connected(w.options())
	id := w.server.Say(w.channel, w.ann, "shall we?", discordtest.SayOptions{})
	w.hears("shall we?")
	shown := func(what string, want ...surface.Reaction) {
		t.Helper()
		w.await(what, func() bool {
			m, err := w.cached(w.channel, id)
			return err == nil && slices.Equal(m.Reactions, want)
		})
	}
	w.server.React(w.channel, id, w.ann, "👍")
	w.server.React(w.channel, id, w.bob, "👍")
	w.server.React(w.channel, id, w.bob, "🎉")
	shown("three reactions", surface.Reaction{Emoji: "👍", Count: 2}, surface.Reaction{Emoji: "🎉", Count: 1})
	if err := a.React(t.Context(), event.MessageRef{ChannelID: w.channel, MessageID: id}, "👀"); err != nil {
		t.Fatal(err)
	}
	w.server.Unreact(w.channel, id, w.ann, "👍")
	shown("ours", surface.Reaction{Emoji: "👍", Count: 1}, surface.Reaction{Emoji: "🎉", Count: 1}, surface.Reaction{Emoji: "👀", Count: 1, Mine: true})
	w.server.ClearReactions(w.channel, id, "🎉")
	shown("one kind is removed", surface.Reaction{Emoji: "👍", Count: 1}, surface.Reaction{Emoji: "👀", Count: 1, Mine: true})
	w.server.ClearReactions(w.channel, id, "")
	shown("all are removed")
}

// An edit of which the rest cannot be read now is read later.
func TestAnEditThatCannotBeReadNowIsReadLater(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	id := w.server.Say(w.channel, w.ann, "frist", discordtest.SayOptions{})
	w.hears("frist")
	w.caughtUp()
	w.server.Fail("GET /channels/{channel}/messages/{message}", discordtest.ServerError, 20)
	w.server.EditPart(w.channel, id, "first")
	w.await("the edit", func() bool {
		m, err := w.cached(w.channel, id)
		return err == nil && m.Text == "first" && len(w.published(event.AdapterMessageUpdated)) > 0
	})
	if got := w.published(event.AdapterMessageUpdated); len(got) != 1 {
		t.Errorf("%d edits were published", len(got))
	}
	if !strings.Contains(w.log.String(), "cannot read a message that was edited") {
		t.Error("control: the message could be read")
	}
}

// An update may have only the fields that changed, without the author.
func TestAPartialUpdateIsCompleted(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	id := w.server.Say(w.channel, w.ann, "frist", discordtest.SayOptions{})
	w.hears("frist")
	w.server.Tell("MESSAGE_UPDATE", json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"content":"first","edited_timestamp":"2026-01-01T00:00:00.000000+00:00"}`, id, w.channel, w.guild)))
	w.await("the edit", func() bool { return len(w.published(event.AdapterMessageUpdated)) == 1 })
	if p := w.published(event.AdapterMessageUpdated)[0].(event.AdapterMessage); p.UserID != w.ann.ID || p.MessageID != id {
		t.Errorf("%+v", p)
	}
}
