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
			d.Shown(d.General, "an answer", answerTo(asked))
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
		d.Shown(d.General, "a webhook is answered", answerTo(asked))
		for n := range 6 { // the other bot answers each of our answers
			id := d.MentionUs(d.General, other, fmt.Sprint("and another thing ", n))
			if n < 4 {
				d.Shown(d.General, "another bot is answered", answerTo(id))
			}
		}
		id := d.MentionUs(d.General, d.Ada, "what do they want?")
		d.Shown(d.General, "a person is answered", answerTo(id))
		if n := s.Count("SELECT count(*) FROM requests"); n != 6 {
			t.Errorf("%d requests, want 5 of programs and one of a person", n)
		}
		if n := len(d.Ours(quiet)); n != 0 {
			t.Errorf("in a channel that does not listen to programs, there are %d messages", n)
		}
	})
}

// Discord's client sends a forward and the comment on it as two messages, of which only the comment
// mentions the bot.
func TestACommentBringsItsForward(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		_, d := onDiscord(t, bus, model.server.URL)
		original, _ := d.Message(d.General, d.Say(d.General, d.Bob, "the disk is full", discordtest.SayOptions{}))
		d.Say(d.General, d.Ada, "", discordtest.SayOptions{Rich: discordtest.Rich{Forward: &original}})
		asked := d.MentionUs(d.General, d.Ada, "why?")
		d.Shown(d.General, "an answer", answerTo(asked))
		if last := lastRequest(model.server); !strings.Contains(last, "[forwarded message]\nthe disk is full\nwhy?") {
			t.Errorf("the forward is missing in what the model reads:\n%s", last)
		}
	})
}

// A program posts what a person wrote in another name, and deletes the original: one answer.
func TestAProxiedMessageIsAnsweredOnce(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		d := e2e.NewDiscord(t, discordtest.Options{})
		d.Set("channels", fmt.Sprintf("{%q: {bots: true}}", d.General))
		s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env())...)
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		alter := d.User("Alter")
		ask := func(text string, begun func(id string)) (copied string) {
			id := d.Say(d.General, d.Ada, "A: "+d.Self().Mention()+" "+text, discordtest.SayOptions{})
			begun(id)
			copied = d.Say(d.General, alter, d.Self().Mention()+" "+text, discordtest.SayOptions{Rich: discordtest.Rich{Webhook: true, Proxy: true}})
			d.Delete(d.General, id)
			return copied
		}
		ask("what is there?", func(string) { d.Shown(d.General, "the answer begins", e2e.Holds("glob")) })
		// The second question has to wait.
		waiting := ask("and then?", func(id string) {
			e2e.Eventually(t, answerWithin, "the question waits", func() bool { return eyes(d, d.General, id) })
		})
		e2e.Eventually(t, answerWithin, "the copy waits", func() bool { return eyes(d, d.General, waiting) })
		model.letGo()
		s.WaitEnded(e2e.RequestID(d.General, waiting), answerWithin)
		e2e.Eventually(t, answerWithin, "nothing waits", func() bool {
			return s.Count("SELECT count(*) FROM requests WHERE state NOT IN ('done', 'failed', 'cancelled')") == 0
		})
		if n := s.Count("SELECT count(*) FROM requests WHERE state = 'done'"); n != 2 {
			t.Errorf("%d answers to two questions", n)
		}
	})
}
