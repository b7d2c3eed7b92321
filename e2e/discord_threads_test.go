package e2e_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// In a thread, the model is told where it is and what started the thread, whether the bot saw that or
// not, and it is told once.
func TestAThreadBringsItsTitleAndTheMessageThatStartedIt(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		d := e2e.NewDiscord(t, discordtest.Options{})
		forum := d.Forum(d.Guild, "help")
		// Both were written before the bot came.
		post := d.Post(forum, d.Bob, "The stairs creak", "since it snowed, the third step creaks")
		root := d.Say(d.General, d.Bob, "the boiler is cold again", discordtest.SayOptions{})
		thread := d.ThreadFrom(d.General, root, "Cold boiler")
		empty := d.Thread(d.General, "Only a title")
		e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env())...)
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		for _, c := range []struct{ channel, title, parent, starter string }{
			{post, "The stairs creak", "help", "since it snowed, the third step creaks"},
			{thread, "Cold boiler", "general", "the boiler is cold again"},
			{empty, "Only a title", "general", ""},
		} {
			ask := func(text string) string {
				asked := d.MentionUs(c.channel, d.Ada, text)
				d.Shown(c.channel, "the question is answered", answerTo(asked))
				return lastRequest(model.server)
			}
			first := ask("what can be done?")
			for _, want := range []string{
				`This conversation is in the thread "` + c.title + `" of the channel "#` + c.parent + `".`, c.starter, "what can be done?",
			} {
				if strings.Count(first, want) != 1 && want != "" {
					t.Errorf("in %s the model is told %q %d times:\n%s", c.title, want, strings.Count(first, want), first)
				}
			}
			if c.starter != "" && !strings.Contains(first, "(this message started the thread)\n"+c.starter) {
				t.Errorf("the message that started the thread %s is not marked:\n%s", c.title, first)
			}
			if second := ask("and then?"); strings.Count(second, c.title) > 1 || c.starter != "" && strings.Count(second, c.starter) > 1 {
				t.Errorf("in %s the model is told again:\n%s", c.title, second)
			}
		}
	})
}

// In a channel, the model is told its name and topic: once, and again after a change.
func TestTheModelKnowsTheChannelAndItsTopic(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		d := e2e.NewDiscord(t, discordtest.Options{})
		d.SetTopic(d.General, "What goes live.\nAsk Ada.")
		e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env())...)
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
		ask := func(text string) (places []string) {
			asked := d.MentionUs(d.General, d.Ada, text)
			d.Shown(d.General, "the question is answered", answerTo(asked))
			for line := range strings.Lines(lastRequest(model.server)) {
				if strings.HasPrefix(line, "(This conversation is in") {
					places = append(places, strings.TrimSuffix(line, "\n"))
				}
			}
			return places
		}
		first := `(This conversation is in the channel "#general". The topic of the channel is "What goes live. Ask Ada.".)`
		for _, text := range []string{"what is this?", "and then?"} {
			if got := ask(text); !slices.Equal(got, []string{first}) {
				t.Errorf("the model is told %q, want %q", got, first)
			}
		}
		d.SetTopic(d.General, "")
		want := []string{first, `(This conversation is in the channel "#general".)`}
		if got := ask("and now?"); !slices.Equal(got, want) {
			t.Errorf("after the change, the model is told %q, want %q", got, want)
		}
	})
}

// A thread of the bot's own answer begins with that answer.
func TestAThreadOfAnAnswerBeginsWithTheAnswer(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		_, d := onDiscord(t, bus, model.server.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		answer := d.Shown(d.General, "the answer", answerTo(asked))
		thread := d.ThreadFrom(d.General, answer.ID, "What is there")
		for _, text := range []string{"in which room?", "and where?"} {
			again := d.MentionUs(thread, d.Ada, text)
			d.Shown(thread, "an answer", func(m discordtest.Message) bool { return m.ReplyTo == again && len(m.Buttons) == 0 && m.Content != "" })
			if last := lastRequest(model.server); strings.Count(last, strings.TrimSpace(endText)) < 1 {
				t.Errorf("the model does not see the answer that the thread is about:\n%s", last)
			}
		}
	})
}

// lastRequest returns all texts of the last call of the model.
func lastRequest(model *llmtest.Server) string {
	requests := model.Requests()
	var all []string
	for _, m := range requests[len(requests)-1].Messages {
		all = append(all, m.Text)
	}
	return strings.Join(all, "\n")
}

func TestNewConversationsOnDiscord(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		e2e.Eventually(t, answerWithin, "the commands are there", func() bool { return len(d.Commands()) > 0 })
		asked := d.MentionUs(d.General, d.Ada, "the key is under the mat")
		first := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		d.MentionUs(d.General, d.Bob, "may I come in?")
		e2e.Eventually(t, answerWithin, "the queue lists both", func() bool {
			text := d.Answered(d.Slash(d.General, d.Bob.ID, "queue", nil))
			return strings.Contains(text, "@ada: the key is under the mat") && strings.Contains(text, "1. @bob: may I come in?")
		})
		if text := d.Answered(d.Slash(d.General, d.Ada.ID, "new", nil)); !strings.Contains(text, "in progress") {
			t.Errorf("/new during an answer says %q", text)
		}
		model.letGo()
		s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
		e2e.Eventually(t, answerWithin, "/new is accepted", func() bool {
			return strings.Contains(d.Answered(d.Slash(d.General, d.Ada.ID, "new", nil)), "This is a new conversation")
		})
		next := d.MentionUs(d.General, d.Ada, "where is the key?")
		d.Shown(d.General, "an answer", answerTo(next))
		if last := lastRequest(model.server); strings.Contains(last, "under the mat") {
			t.Errorf("the model still sees the old conversation:\n%s", last)
		}
		// A reply to a message of the old conversation brings that back.
		reply := d.Say(d.General, d.Ada, "what did you mean?", discordtest.SayOptions{ReplyTo: first.ID})
		d.Shown(d.General, "an answer", answerTo(reply))
		if last := lastRequest(model.server); !strings.Contains(last, "under the mat") {
			t.Errorf("a reply does not bring the old messages back:\n%s", last)
		}
		var list struct{ Messages []struct{ Content any } }
		s.Request("GET", "/sessions/"+d.General+"/messages", nil, &list)
		if len(list.Messages) < 7 {
			t.Errorf("the old conversation is gone: %+v", list.Messages)
		}
	})
}
