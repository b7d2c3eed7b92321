package e2e_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// eyes reports whether the bot has acknowledged a message.
func eyes(d *e2e.Discord, channel, message string) bool {
	m, _ := d.Message(channel, message)
	return slices.ContainsFunc(m.Reactions, func(r discordtest.Reaction) bool {
		return r.Emoji == "👀" && slices.Contains(r.Users, d.Self().ID)
	})
}

// Whoever has to wait sees at once that the bot has noticed the message, until the answer is there.
func TestWhatHasToWaitIsAcknowledged(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		first := d.MentionUs(d.General, d.Ada, "what is there?")
		running := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		waiting := map[string]string{
			"a queued question": d.MentionUs(d.General, d.Bob, "and for me?"),
			"a follow-up":       d.Say(d.General, d.Ada, "and in the cellar?", discordtest.SayOptions{ReplyTo: running.ID}),
			"a steer":           d.Say(d.General, d.Ada, d.Self().Mention()+" only the attic", discordtest.SayOptions{ReplyTo: running.ID}),
		}
		for what, id := range waiting {
			e2e.Eventually(t, answerWithin, what+" is acknowledged", func() bool { return eyes(d, d.General, id) })
		}
		if eyes(d, d.General, first) {
			t.Error("control: the question that is being answered is acknowledged, too")
		}
		// The acknowledgments survive the process, and are removed by the next one.
		d.Kill(s)
		s.Restart()
		model.letGo()
		s.WaitEnded(e2e.RequestID(d.General, waiting["a queued question"]), answerWithin)
		for what, id := range waiting {
			e2e.Eventually(t, answerWithin, what+" is answered", func() bool { return !eyes(d, d.General, id) })
		}
	})
}

func TestALongAnswerPingsThePersonWhoAsked(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		_, d := onDiscord(t, bus, model.server.URL, "pingAfter: 1ms")
		model.letGo()
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		answer := d.Shown(d.General, "the answer", answerTo(asked))
		ping := d.Shown(d.General, "the ping", func(m discordtest.Message) bool { return m.ReplyTo == answer.ID })
		if !slices.Equal(ping.Pings, []string{d.Ada.ID}) {
			t.Errorf("%q notifies %q", ping.Content, ping.Pings)
		}
		if n := len(d.Ours(d.General)); n != 2 {
			t.Errorf("%d messages", n)
		}
	})
}

// Discord notifies nobody whose name is added by an edit.
func TestANameThatComesLateIsPingedAtTheEnd(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		t.Cleanup(letGo)
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if len(r.Messages[len(r.Messages)-1].Results) == 0 {
				return llmtest.Script{Text: llmtest.Words(lookingText), Calls: []llmtest.Call{{ID: "call-1", Name: "glob", Input: `{"pattern":"*.md"}`}}}
			}
			<-hold
			return llmtest.Say("Ask @bob about it.")
		})
		_, d := onDiscord(t, bus, model.URL)
		asked := d.MentionUs(d.General, d.Bob, "hello") // now the bot knows the name
		answer := d.Shown(d.General, "the answer begins", func(m discordtest.Message) bool { return m.ReplyTo == asked && e2e.Holds("glob")(m) })
		letGo()
		ping := d.Shown(d.General, "the ping", func(m discordtest.Message) bool { return m.ReplyTo == answer.ID })
		if !slices.Equal(ping.Pings, []string{d.Bob.ID}) || len(answer.Pings) != 0 {
			t.Errorf("%q notifies %q; the answer notified %q", ping.Content, ping.Pings, answer.Pings)
		}
		if done, _ := d.Message(d.General, answer.ID); !strings.Contains(done.Content, "Ask "+d.Bob.Mention()) {
			t.Errorf("the answer is %q", done.Content)
		}
	})
}

func warningOf(s *e2e.Server, part string) (message string) {
	var report struct {
		Parts []struct{ Name, Status, Message string }
	}
	s.Request("GET", "/readyz", nil, &report)
	for _, p := range report.Parts {
		if p.Name == part && p.Status == "warning" {
			message = p.Message
		}
	}
	return message
}

// A person whose answer Discord refuses learns it by a reaction or, if that is refused too, in private. The
// operator learns it in any case.
func TestARefusedAnswerIsToldInAnotherWay(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		model.letGo()
		if w := warningOf(s, "answers"); w != "" {
			t.Errorf("control: %q", w)
		}
		d.Deny(d.General, d.Guild, discordtest.SendMessages)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		e2e.Eventually(t, answerWithin, "the question has a sign", func() bool {
			m, _ := d.Message(d.General, asked)
			return slices.ContainsFunc(m.Reactions, func(r discordtest.Reaction) bool { return r.Emoji == "🚫" })
		})
		e2e.Eventually(t, answerWithin, "the operator is told", func() bool { return strings.Contains(warningOf(s, "answers"), "Missing Permissions") })
		private := d.DM(d.Ada)
		if got := d.Ours(private); len(got) != 0 {
			t.Errorf("the reaction was shown, and in private there is %+v", got)
		}

		d.Deny(d.General, d.Guild, discordtest.AddReactions)
		d.MentionUs(d.General, d.Ada, "and now?")
		told := d.Shown(private, "the person is told in private", e2e.Holds("I could not answer you in #general"))
		if !strings.Contains(told.Content, "lacks a permission") {
			t.Errorf("it says %q", told.Content)
		}

		// A burst has no message of its own; everybody who took part is told in private.
		d.Deny(d.Lounge, d.Guild, discordtest.SendMessages)
		d.Say(d.Lounge, d.Bob, "anyone here?", discordtest.SayOptions{})
		d.Shown(d.DM(d.Bob), "the person of a burst is told", e2e.Holds("I could not answer you in #lounge"))

		// If nobody can be told, the operator is.
		d.Fail("POST /users/@me/channels", discordtest.MissingPermissions, 100)
		d.MentionUs(d.General, d.Moderator, "me, too?")
		e2e.Eventually(t, answerWithin, "the operator is told that the person is not", func() bool {
			return strings.Contains(warningOf(s, "answers"), "could not be told in private either")
		})
	})
}

// If Discord refuses an answer of which a part is visible already, the person who asked learns
// that there is more.
func TestARefusedRestIsTold(t *testing.T) {
	t.Parallel()
	model := newChatModel(t)
	s, d := onDiscord(t, e2e.SQLite, model.server.URL)
	d.MentionUs(d.General, d.Ada, "what is there?")
	d.Shown(d.General, "the answer begins", e2e.Holds(strings.TrimSpace(lookingText)))
	d.Deny(d.General, d.Guild, discordtest.ViewChannel)
	model.letGo()
	d.Shown(d.DM(d.Ada), "the person is told", e2e.Holds("I could not show the rest of my answer in #general"))
	e2e.Eventually(t, answerWithin, "the operator is told", func() bool { return strings.Contains(warningOf(s, "answers"), "#general") })
}

// Where the bot may not write, no model is asked, and each person who asks is told once, in private. When it may
// write again, it answers.
func TestWhereTheBotMayNotWriteNobodyIsAnswered(t *testing.T) {
	t.Parallel()
	model := newChatModel(t)
	model.letGo()
	s, d := onDiscord(t, e2e.SQLite, model.server.URL)
	d.Deny(d.General, d.Guild, discordtest.SendMessages|discordtest.AddReactions)
	e2e.Eventually(t, answerWithin, "the permissions are known", func() bool {
		return s.Count("SELECT count(*) FROM surface_sessions WHERE CAST(json AS TEXT) LIKE '%\"muted\":true%'") == 1
	})
	direct := d.DM(d.Moderator)
	for _, text := range []string{"what is there?", "hello?"} {
		d.MentionUs(d.General, d.Moderator, text)
	}
	d.Shown(direct, "the notice", e2e.Holds("I could not answer you in #general"))
	e2e.Eventually(t, answerWithin, "the operator is told", func() bool { return strings.Contains(warningOf(s, "answers"), "In #general") })
	d.Permit(d.General, d.Guild, discordtest.SendMessages|discordtest.AddReactions)
	asked := d.MentionUs(d.General, d.Moderator, "and now?")
	d.Shown(d.General, "the answer", answerTo(asked))
	if n := s.Count("SELECT count(*) FROM requests"); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	if n := len(d.Ours(direct)); n != 1 {
		t.Errorf("%d notices, want 1", n)
	}
}

// In a locked thread, no model is asked for an answer that Discord would refuse, and each person who
// asks is told so, in private.
func TestInALockedThreadNobodyIsAnswered(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		thread := d.Thread(d.General, "plans")
		d.Lock(thread, true)
		direct := d.DM(d.Moderator)
		for _, text := range []string{"what is there?", "hello?"} {
			d.MentionUs(thread, d.Moderator, text)
		}
		d.Shown(direct, "the notice", func(m discordtest.Message) bool { return strings.Contains(m.Content, "is locked") })
		d.Lock(thread, false)
		asked := d.MentionUs(thread, d.Moderator, "and now?")
		d.Shown(thread, "the answer", answerTo(asked))
		if n := s.Count("SELECT count(*) FROM requests"); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
		if n := len(d.Ours(direct)); n != 1 {
			t.Errorf("%d notices, want 1", n)
		}
	})
}
