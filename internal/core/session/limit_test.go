package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
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
	effort.SkipSlow(t)
	t.Parallel()
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
					o.Model = func(context.Context, session.Session) (llm.Model, error) {
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

// jump runs a request of two steps with a time limit of an hour. The clocks jump by 70 minutes
// during the tool call between them. It returns the request, or its pause.
func jump(t *testing.T, awake bool) (req session.Request, paused bool) {
	var wall, monotonic atomic.Int64
	begun := time.Now()
	tools := &counter{do: func(context.Context) error {
		wall.Store(int64(70 * time.Minute))
		if awake {
			monotonic.Store(int64(70 * time.Minute))
		}
		return nil
	}}
	r := newRig(t, rigOptions{tools: []tool.Tool{tools}, do: busy, change: func(o *session.Options) {
		o.Settings.Limits.Request.Time = time.Hour
		o.Now = func() time.Time { return time.Now().Add(time.Duration(wall.Load())) }
		o.Awake = func() time.Duration { return time.Since(begun) + time.Duration(monotonic.Load()) }
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	waitUntil(t, "it starts", func() bool { return r.mail("m1") == session.MailApplied })
	waitUntil(t, "it ends or asks", func() bool {
		req = r.request("web:s1:r1")
		return req.State.Ended() || req.AwaitsAnswer()
	})
	return req, req.AwaitsAnswer()
}

// A suspend of the machine, and a clock that is set ahead, are no working time.
func TestASuspendIsNoWorkingTime(t *testing.T) {
	if req, paused := jump(t, false); paused || req.State != event.StateDone {
		t.Errorf("it is %s and asks: %t", req.State, paused)
	}
	t.Run("control: time awake is", func(t *testing.T) {
		if _, paused := jump(t, true); !paused {
			t.Error("it does not ask")
		}
	})
}
