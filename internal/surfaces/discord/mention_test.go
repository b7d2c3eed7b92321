package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
	"lilac/internal/testkit/discordtest"
)

// A mention counts only in the message's own text, outside of code, and only if Discord also lists
// the bot as mentioned.
func TestOnlyAMentionInTheOwnTextCounts(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	self := w.server.Self().ID
	role := w.server.ManagedRole(w.guild)
	other := w.server.Role(w.guild, 0)
	listed := fmt.Sprintf(`"mentions":[{"id":%q}]`, self)
	for i, c := range []struct {
		name, message string
		want          bool
	}{
		{"the id", `"content":"<@ID> 0",` + listed, true},
		{"the id in the old form", `"content":"<@!ID> 1",` + listed, true},
		{"the managed role", `"content":"<@&ROLE> 2","mention_roles":["ROLE"]`, true},
		{"outside of code", "\"content\":\"`x` <@ID> 3 ``y`z``\"," + listed, true},
		{"after an unclosed backtick", "\"content\":\"` <@ID> 4\"," + listed, true},
		{"not listed by Discord", `"content":"<@ID> 5","mentions":[]`, false},
		{"the ping of a reply", `"content":"no id 6",` + listed, false},
		{"another role", `"content":"<@&OTHER> 7","mention_roles":["OTHER"]`, false},
		{"in inline code", "\"content\":\"`<@ID>` 8\"," + listed, false},
		{"in code with two backticks", "\"content\":\"``a ` <@ID>`` 9\"," + listed, false},
		{"in a code fence", "\"content\":\"```\\n<@ID>\\n``` 10\"," + listed, false},
		{"the role in a code fence", "\"content\":\"```<@&ROLE>``` 11\",\"mention_roles\":[\"ROLE\"]", false},
		{"in a forward", `"content":"","message_snapshots":[{"message":{"content":"<@ID> 12"}}],` + listed, false},
		{"in an embed", `"content":"","embeds":[{"description":"<@ID> 13"}],` + listed, false},
		{"in a poll", `"content":"","poll":{"question":{"text":"<@ID> 14"},"answers":[]},` + listed, false},
	} {
		message := strings.NewReplacer("<@ID>", "<@"+self+">", "<@!ID>", "<@!"+self+">", "ROLE", role, "OTHER", other).Replace(c.message)
		id := fmt.Sprint(1900000000000000000 + i)
		w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"id":%q,"channel_id":%q,"guild_id":%q,"author":{"id":%q},%s}`, id, w.channel, w.guild, w.ann.ID, message)))
		if f := w.factsOf(id); f.MentionsBot != c.want {
			t.Errorf("%s: mentions the bot: %v, want %v", c.name, f.MentionsBot, c.want)
		}
	}
}

// The bot's managed role has its name, so people choose it by mistake. It is stored as a mention of the bot.
func TestAMentionOfTheManagedRoleIsOneOfTheBot(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	role, other := w.server.ManagedRole(w.guild), w.server.Role(w.guild, 0)
	w.connected(w.options())
	w.caughtUp()
	w.server.Tell("MESSAGE_CREATE", json.RawMessage(fmt.Sprintf(`{"id":"1900000000000000001","channel_id":%q,"guild_id":%q,"author":{"id":%q},"content":"<@&%s> !int ask <@&%s>","mention_roles":[%[4]q,%[5]q]}`,
		w.channel, w.guild, w.ann.ID, role, other)))
	if f := w.factsOf("1900000000000000001"); !f.MentionsBot || f.Content != w.server.Self().Mention()+" !int ask <@&"+other+">" {
		t.Errorf("%+v", f)
	}
}

// An edit reports the mention that it adds, and only the edit that adds it.
func TestAnEditReportsTheMentionThatItAdds(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	w.connected(w.options())
	mention := "<@" + w.server.Self().ID + ">"
	id := w.server.Say(w.channel, w.ann, "question", discordtest.SayOptions{})
	w.hears("question")
	for _, step := range []struct {
		text  string
		added bool
	}{{"question!", false}, {mention + " question", true}, {mention + " another question", false}} {
		w.server.Edit(w.channel, id, step.text)
		var f surface.Facts
		w.await("the edit to "+step.text, func() bool {
			for _, p := range w.published(event.AdapterMessageUpdated) {
				if m := p.(event.AdapterMessage); m.Text == step.text {
					f, _ = surface.FactsOf(discord.Platform, m.Raw)
					return true
				}
			}
			return false
		})
		if f.MentionAdded != step.added {
			t.Errorf("%q adds a mention: %v, want %v", step.text, f.MentionAdded, step.added)
		}
	}
}

// factsOf waits for the event of a message and returns the facts in it.
func (w *world) factsOf(id string) (f surface.Facts) {
	w.t.Helper()
	w.await("message "+id, func() bool {
		for _, p := range w.published(event.AdapterMessageCreated) {
			if m := p.(event.AdapterMessage); m.MessageID == id {
				f, _ = surface.FactsOf(discord.Platform, m.Raw)
				return true
			}
		}
		return false
	})
	return f
}

// The text of an event has names; the original and its mentions are in raw. Without Names, the
// text stays as it is.
func TestTheTextOfAnEventIsNormalized(t *testing.T) {
	w := newWorld(t, discordtest.Options{})
	o := w.options()
	o.Names = func(q db.Queryer) func(string) string {
		return func(text string) string {
			u, err := (store.SurfaceCache{}).User(q, discord.Platform, w.ann.ID)
			if err != nil {
				t.Errorf("the author is not cached yet: %v", err)
			}
			return strings.ReplaceAll(text, "<@"+u.ID+">", "@"+u.Name)
		}
	}
	w.connected(o)
	original := "<@" + w.ann.ID + "> wrote this"
	w.server.Say(w.channel, w.ann, original, discordtest.SayOptions{})
	m, facts := w.hears("@Ann wrote this")
	if facts.Content != original {
		t.Errorf("raw has %q, and the event is %+v", facts.Content, m)
	}
	if cached, err := w.cached(w.channel, m.MessageID); err != nil || cached.Text != original {
		t.Errorf("the cache has %q, %v", cached.Text, err)
	}
}
