package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// X8: commands of the agent create many waits in several conversations, half for replies and half
// for times. There are many kills, and replies arrive while the program is down, starts, and is
// killed again. Each wait wakes the agent once in the conversation that created it, and no reply
// wakes it where the reply was written.
func TestWaitsOfTheProgramWakeOnceThroughManyKills(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for _, wrong := range endureKills(t, bus, many(20, 1000), many(3, 50), "") {
			t.Error(wrong)
		}
	})
}

func TestControlWaitsThatTheStoreForgotAreNoticed(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, endureKills(t, bus, 4, 1, "DELETE FROM workflow_waits"), "woke the agent where it was said")
	})
}

// endureKills creates waits, kills the program repeatedly while the replies arrive, and returns
// the problems at the end. forget is an optional SQL statement that first removes stored state.
func endureKills(t *testing.T, bus e2e.Engine, waits, kills int, forget string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	commands := map[string]string{}
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		said := lastOfPerson(r)
		if command := commands[said]; command != "" && len(r.Messages[len(r.Messages)-1].Results) == 0 {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(command) + `}`}}}
		}
		return llmtest.Say("Noted.")
	})
	s, d := onDiscord(t, bus, model.URL)

	// Bob sends many questions, and the agent waits for replies to them.
	questions := make([]string, waits/2)
	for i := range questions {
		questions[i] = d.Say(d.General, d.Bob, fmt.Sprint("question ", i), discordtest.SayOptions{})
	}
	last := fmt.Sprintf("question %d\"", len(questions)-1)
	e2e.Eventually(t, answerWithin, "what Bob said is taken in", func() bool {
		return slices.ContainsFunc(s.Topic("evt.adapter"), func(e event.Event) bool { return strings.Contains(string(e.Data), last) })
	})
	const perSession = 100 // a conversation may have 200
	sessions := make([]string, max(2, waits/perSession))
	for i := range sessions {
		sessions[i] = s.NewSession()
		var b strings.Builder
		for n := i; n < len(questions); n += len(sessions) {
			fmt.Fprintf(&b, "tools workflow.wait_for_reply --session-id=%s --message-id=%s --summary='question %d' >/dev/null || echo failed\n", d.General, questions[n], n)
			fmt.Fprintf(&b, "tools workflow.create --summary='moment %d' --tasks:json='[{\"kind\":\"delay\",\"description\":\"x\",\"delay\":\"%ds\"}]' >/dev/null || echo failed\n", n, 2+n%many(5, 60))
		}
		commands[fmt.Sprint("begin ", i)] = b.String() + "echo made"
	}
	for i, session := range sessions {
		begun := s.Prompt(session, fmt.Sprint("begin ", i), event.Prompt)
		if story := s.WaitEnded(begun.RequestID, 3*answerWithin); story.State != string(event.StateDone) {
			t.Fatalf("the request ended as %s: %s", story.State, story.Detail)
		}
	}
	if n := s.Count("SELECT count(*) FROM workflows"); n != waits {
		t.Fatalf("%d workflows were made, not %d", n, waits)
	}

	reply := func(n int) {
		d.Say(d.General, d.Ada, fmt.Sprintf("%s answer %d.", d.Self().Mention(), n), discordtest.SayOptions{ReplyTo: questions[n]})
	}
	// woken counts the requests that each wait started. ended holds those that are finished.
	woken, ended := map[string]int{}, map[string]string{}
	look := func() {
		clear(woken)
		for _, e := range s.Topic("cmd.request") {
			if id := e.Headers.RequestID(); strings.HasPrefix(id, "wf:") {
				woken[id]++
			}
		}
	}
	over := func(ids map[string]int) bool {
		for id := range ids {
			if ended[id] != "" {
				continue
			}
			story := s.Story(id)
			if !event.RequestState(story.State).Ended() {
				return false
			}
			ended[id] = story.State + " " + story.Detail
		}
		return true
	}
	next, before := 0, map[string]int{}
	for round := range kills {
		d.Kill(s)
		if forget != "" {
			s.Exec(forget)
		}
		until := len(questions) * (round + 1) / kills
		for half := (next + until) / 2; next < half; next++ {
			reply(next)
		}
		s.Restart()
		for ; next < until; next++ {
			reply(next)
		}
		// Requests that started before the last kill must finish before the next one: a step that
		// is killed four times fails, as intended.
		e2e.Eventually(t, answerWithin, "what was woken before is over", func() bool { return over(before) })
		look()
		before = maps.Clone(woken)
	}
	e2e.Poll(2*answerWithin, func() bool {
		look()
		return len(d.Ours(d.General)) > 0 || len(woken) >= waits && over(woken)
	})
	if len(woken) != waits {
		add("%d of %d waits woke the agent", len(woken), waits)
	}
	for id, n := range woken {
		if n != 1 || !strings.HasSuffix(id, ":1") || ended[id] != string(event.StateDone)+" " {
			add("%s was published %d times and ended as %q", id, n, ended[id])
		}
	}
	if ours := d.Ours(d.General); len(ours) > 0 {
		add("a reply woke the agent where it was said: %d messages", len(ours))
	}
	told := map[string]int{}
	for _, session := range sessions {
		var history struct{ Messages []e2e.Said }
		s.Request("GET", "/sessions/"+session+"/messages?limit=1000", nil, &history)
		for _, m := range history.Messages {
			if text := m.Text(); m.Role == "user" && strings.Contains(text, "answer ") {
				told[text[strings.LastIndex(text, "answer "):]]++
			}
		}
	}
	for n := range questions {
		if got := told[fmt.Sprintf("answer %d.", n)]; got != 1 {
			add("answer %d was told %d times", n, got)
		}
	}
	return wrong
}
