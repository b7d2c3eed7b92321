package e2e_test

import (
	"slices"
	"testing"

	"lilac/internal/discordtest"
	"lilac/internal/e2e"
	"lilac/internal/event"
	"lilac/internal/llmtest"
	"lilac/internal/redistest"
)

// An answer that Discord could not take before the bus became another one is shown
// there afterwards, whole.
func TestAnAnswerThatWasNotShownOutlivesAChangeOfTheBus(t *testing.T) {
	t.Parallel()
	for name, toRedis := range map[string]bool{"to redis": true, "from redis": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := e2e.OnRedis(redistest.Start(t, redistest.Options{}))
			before, after := redis, []string{"LILAC_BUS_URL=sqlite:"}
			if toRedis {
				before, after = after, before
			}
			model := llmtest.New(t, func(llmtest.Request) llmtest.Script { return llmtest.Say(wholeText) })
			d := e2e.NewDiscord(t, discordtest.Options{})
			s := e2e.New(t, slices.Concat(modelEnv(model.URL), d.Env())...)
			s.Restart(before...)
			e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
			d.Fail("POST /channels", discordtest.Fault{Status: 503}, 1_000_000)
			question := d.MentionUs(d.General, d.Ada, "what is there?")
			e2e.Eventually(t, answerWithin, "the request has ended", func() bool {
				return event.RequestState(s.Story(e2e.RequestID(d.General, question)).State).Ended()
			})
			e2e.Eventually(t, answerWithin, "all events are handled", func() bool { return s.Count(unhandled) == 0 })
			s.Terminate(answerWithin)
			d.Forgotten()
			if len(d.Ours(d.General)) != 0 {
				t.Fatal("control: the answer was shown before")
			}
			d.ClearFaults()
			s.Restart(after...)
			d.Shown(d.General, "the answer", answers(question))
			if ours := d.Ours(d.General); len(ours) != 1 {
				t.Errorf("there are %d messages", len(ours))
			}
		})
	}
}
