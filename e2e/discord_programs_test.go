package e2e_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
)

// A reply chain brings what programs post beside their text, a forward, and reactions.
func TestAReplyToAProgramBringsAllOfItsMessage(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		_, d := onDiscord(t, bus, model.server.URL)
		hook := d.User("CI")
		alert := d.Say(d.General, hook, "", discordtest.SayOptions{Rich: discordtest.Rich{
			Webhook: true, Embeds: json.RawMessage(`[{"type":"rich","title":"Build 7 failed","fields":[{"name":"Commit","value":"1a2b","inline":true}]}]`),
			Components: json.RawMessage(`[{"type":1,"components":[{"type":2,"style":5,"label":"Open the log","url":"https://ci.example/7"}]}]`),
		}})
		d.React(d.General, alert, d.Bob, "🔥")
		original, _ := d.Message(d.General, d.Say(d.General, d.Bob, "the disk is full", discordtest.SayOptions{}))
		forward := d.Say(d.General, d.Bob, "this may be why", discordtest.SayOptions{ReplyTo: "", Rich: discordtest.Rich{Forward: &original}})
		for _, c := range []struct {
			to   string
			want []string
		}{
			{alert, []string{"Build 7 failed", "Commit: 1a2b", "[button: Open the log (https://ci.example/7)]", "(reactions: 🔥 1)"}},
			{forward, []string{"this may be why\n[forwarded message]\nthe disk is full"}},
		} {
			asked := d.Say(d.General, d.Ada, d.Self().Mention()+" what happened?", discordtest.SayOptions{ReplyTo: c.to})
			d.Shown(d.General, "an answer", func(m discordtest.Message) bool { return m.ReplyTo == asked && e2e.Finished(wholeText)(m) })
			for _, want := range c.want {
				if last := lastRequest(model.server); !strings.Contains(last, want) {
					t.Errorf("%q is missing in what the model reads:\n%s", want, last)
				}
			}
		}
	})
}

// Programs wake the bot where the configuration says so, and two programs stop answering each other.
func TestProgramsAreHeardWhereTheConfigurationSaysSo(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		d := e2e.NewDiscord(t, discordtest.Options{})
		d.Set("channels", fmt.Sprintf("{%q: {mode: active}, %q: {bots: true}}", d.Lounge, d.General))
		s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env())...)
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		other := d.Bot(d.Guild, "otherbot")
		hook := d.User("CI")
		quiet := d.Channel(d.Guild, "quiet")
		d.MentionUs(quiet, other, "hello from a program") // control: not there
		asked := d.Say(d.General, hook, d.Self().Mention()+" the build failed", discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true}})
		d.Shown(d.General, "a webhook is answered", func(m discordtest.Message) bool { return m.ReplyTo == asked && e2e.Finished(wholeText)(m) })
		for n := range 6 { // the other bot answers each of our answers
			id := d.MentionUs(d.General, other, fmt.Sprint("and another thing ", n))
			if n < 4 {
				d.Shown(d.General, "another bot is answered", func(m discordtest.Message) bool { return m.ReplyTo == id && e2e.Finished(wholeText)(m) })
			}
		}
		id := d.MentionUs(d.General, d.Ada, "what do they want?")
		d.Shown(d.General, "a person is answered", func(m discordtest.Message) bool { return m.ReplyTo == id && e2e.Finished(wholeText)(m) })
		if n := s.Count("SELECT count(*) FROM requests"); n != 6 {
			t.Errorf("%d requests, want 5 of programs and one of a person", n)
		}
		if n := len(d.Ours(quiet)); n != 0 {
			t.Errorf("in a channel that does not listen to programs, there are %d messages", n)
		}
	})
}
