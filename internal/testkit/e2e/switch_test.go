package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/redistest"
)

// An answer that Discord could not receive before a change of the bus engine is shown completely
// after it.
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

// A lost Redis is replaced by an empty one. Every accepted prompt is answered once, and then the
// bus engine can change.
func TestAnEmptyRedisTakesThePlaceOfOneThatIsGone(t *testing.T) {
	t.Parallel()
	const words = 20
	model := slowModel(t, words, 20*time.Millisecond)
	gone, fresh := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	s := e2e.New(t, modelEnv(model.URL)...)
	s.Restart(e2e.OnRedis(gone)...)
	session, other := s.NewSession(), s.NewSession()
	all := []e2e.Accepted{s.Prompt(session, "count", event.Prompt)}
	e2e.Eventually(t, answerWithin, "it is being answered", func() bool { return model.Count() > 0 })
	gone.Kill()
	all = append(all, s.Prompt(other, "count", event.Prompt))
	s.Kill()
	s.Spawn("LILAC_BUS_URL=sqlite:")
	if !s.WaitExit(answerWithin) || !strings.Contains(s.Log(), "were not handled") {
		t.Fatal("control: it takes another engine although events wait")
	}
	s.Restart(e2e.OnRedis(fresh)...)
	for _, wrong := range unanswered(t, s, all, numbers(words), answerWithin) {
		t.Error(wrong)
	}
	e2e.Eventually(t, answerWithin, "all events are handled", func() bool { return s.Count(unhandled) == 0 })
	s.Terminate(answerWithin)
	s.Restart("LILAC_BUS_URL=sqlite:")
	if n := countEnds(s); n != 0 {
		t.Errorf("%d ends are in a bus that was never used", n)
	}
	more := []e2e.Accepted{s.Prompt(session, "count", event.Prompt)}
	for _, wrong := range unanswered(t, s, more, numbers(words), answerWithin) {
		t.Error(wrong)
	}
}

// The bus engine changes to another one and back. A reader that reconnects is told about the gap:
// its old cursor is still valid, but the events in between are missing.
func TestAStreamSaysThatTheBusWasAnotherOneMeanwhile(t *testing.T) {
	t.Parallel()
	redis := e2e.OnRedis(redistest.Start(t, redistest.Options{}))
	s := e2e.New(t, modelEnv(slowModel(t, 1, 0).URL)...)
	answered := func(bus ...string) {
		s.Restart(bus...)
		s.WaitEnded(s.Prompt(s.NewSession(), "count", event.Prompt).RequestID, answerWithin)
	}
	// next returns the first frame after a cursor.
	next := func(cursor string) (f e2e.Frame) {
		ctx, stop := context.WithTimeout(context.Background(), answerWithin)
		defer stop()
		_ = s.Stream(ctx, "from=begin", cursor, func(got e2e.Frame) {
			if f.Event == "" {
				f = got
			}
			stop()
		})
		return f
	}
	change := func() {
		e2e.Eventually(t, answerWithin, "all events are handled", func() bool { return s.Count(unhandled) == 0 })
		s.Terminate(answerWithin)
	}
	answered(redis...)
	before := next("")
	s.Terminate(answerWithin)
	answered(redis...)
	if f := next(before.ID); f.Event == "stream.gap" {
		t.Error("control: there is a gap although the bus is the same")
	}
	change()
	answered("LILAC_BUS_URL=sqlite:")
	change()
	answered(redis...)
	f := next(before.ID)
	if f.Event != "stream.gap" {
		t.Errorf("behind the cursor of before comes %s, want stream.gap", f.Event)
	}
	if again := next(f.ID); again.Event == "stream.gap" {
		t.Error("the gap is told again")
	}
}
