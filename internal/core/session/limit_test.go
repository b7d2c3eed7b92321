package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// endless streams a word every 20 ms until it is stopped.
func endless(ctx context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(20 * time.Millisecond)
		say(fmt.Sprintf("word%d ", n))
	}
	return chat.Message{}, ctx.Err()
}

// An answer that never ends is stopped within a second after each limit, and the request asks.
// TestControlWithoutALimitACallStreamsOn in package agent is the control.
func TestALimitStopsAnAnswerThatNeverEnds(t *testing.T) {
	price := &llm.Price{Output: 1}
	for name, c := range map[string]struct {
		limits session.Limits
		cap    time.Duration // when the limit is reached
	}{
		"request.time":   {session.Limits{Request: session.Budget{Time: 10 * time.Second}}, 10 * time.Second},
		"request.tokens": {session.Limits{Request: session.Budget{Tokens: 1000}}, 10 * time.Second},
		"session.tokens": {session.Limits{Session: session.Budget{Tokens: 1000}}, 10 * time.Second},
		"day.tokens":     {session.Limits{Day: session.Budget{Tokens: 1000}}, 10 * time.Second},
		"request.money":  {session.Limits{Request: session.Budget{CostMicros: 1000}}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigOptions{dir: dir, change: func(o *session.Options) {
					o.Model = func(context.Context, string) (llm.Model, error) {
						return &scripted{do: endless, window: 1_000_000, price: price}, nil
					}
					o.Settings.Limits = c.limits
				}})
				r.send("web:s1:r1", "m1", event.Prompt, "go")
				for n, answer := range []string{"continue", "stop"} {
					begun := time.Now()
					p := r.pauses(n + 1)
					if took := time.Since(begun); took > c.cap+1500*time.Millisecond {
						t.Errorf("pause %d came after %s", n+1, took)
					}
					if string(p.Limit) != name || p.Used < p.Allowed || p.Used > p.Allowed+p.More/5 {
						t.Errorf("pause %d: used %d of %d of %s", n+1, p.Used, p.Allowed, p.Limit)
					}
					r.send("web:s1:r1", "a"+answer, event.Prompt, answer)
				}
				req := r.waitForEnd("web:s1:r1")
				text, _ := r.output("web:s1:r1")
				if req.State != event.StateCancelled || req.Steps != 2 || !strings.HasPrefix(text, "word0 word1 ") {
					t.Errorf("ended as %s after %d steps with %.40q", req.State, req.Steps, text)
				}
				r.stop()
			})
		})
	}
}

// What was written of an answer that is too long is kept, and the request says why it ended.
func TestAnAnswerThatIsTooLongFailsAndIsKept(t *testing.T) {
	r := newRig(t, rigOptions{
		do: func(ctx context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say(strings.Repeat("much text ", 30_000))
			return chat.Message{}, ctx.Err()
		},
		change: func(o *session.Options) { o.Settings.Answer = agent.Bounds{Text: 200_000} },
	})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	req := r.waitForEnd("web:s1:r1")
	text, _ := r.output("web:s1:r1")
	if req.State != event.StateFailed || req.ErrorKind != fault.TooLarge || !strings.Contains(req.Detail, "too long") || len(text) != 200_000 {
		t.Errorf("ended as %s (%s) with %d bytes", req.State, req.Detail, len(text))
	}
	if all := r.texts(); len(all) != 2 || len(all[1]) < 200_000 {
		t.Errorf("the history has %d messages", len(all))
	}
	for _, e := range r.events(event.OutputTopic("web:s1:r1")) {
		if p, err := event.Decode(e); err == nil {
			if d, is := p.(event.TextDelta); is && len(d.Delta) > 128<<10 {
				t.Errorf("one event has %d bytes of text", len(d.Delta))
			}
		}
	}
}
