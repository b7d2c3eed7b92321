package relay_test

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

// A missing permission ends the request. Once it is back, the visible part of the
// answer shows the reason and loses its button.
func TestGivingUpRemovesTheStopButton(t *testing.T) {
	effort.SkipSlow(t)
	const detail = "The answer cannot be shown: not now"
	for name, c := range map[string]struct {
		only    string
		lasts   time.Duration
		restart bool
		// long makes the answer longer than the visible messages; over ends the
		// request before.
		long, over bool
		want       string
	}{
		"for seconds":                   {lasts: 10 * time.Second, want: "⏹️ " + detail},
		"for long":                      {lasts: 3 * time.Hour, want: "⏹️ " + detail},
		"over a restart":                {lasts: 10 * time.Minute, restart: true, want: "⏹️ " + detail},
		"only sending":                  {only: "send", lasts: time.Hour, long: true, want: "the page has all of it."},
		"both, and more is to be shown": {lasts: time.Minute, long: true, want: "the page has all of it."},
		"the request is over":           {lasts: time.Minute, over: true, want: "hello there"},
		"the control: for too long":     {lasts: 30 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			p := &platform{maxText: 400}
			play(t, p, func(s *stage) {
				s.say("hello")
				time.Sleep(5 * time.Second)
				if seen := p.seen(); len(seen) != 1 || len(seen[0].Buttons) != 1 {
					t.Fatalf("before: %+v", seen)
				}
				p.goAway(fault.Denied, c.only, c.lasts)
				s.say(" there")
				if c.long {
					s.say(" " + paragraphs())
				}
				if c.over {
					s.publish(event.FinalText{FinalText: s.said})
					s.publish(event.RequestLifecycle{State: event.StateDone})
				} else {
					time.Sleep(3 * time.Second)
					if got := s.commands(); len(got) != 1 || got[0].Type != event.CmdRequestCancel {
						t.Errorf("the runner received %v, want one cancel", got)
					}
					s.publish(event.FinalText{FinalText: s.said})
					s.publish(event.RequestLifecycle{State: event.StateCancelled, Detail: detail})
				}
				if c.restart {
					time.Sleep(c.lasts / 2)
					s.restart()
				}
				if c.only == "" {
					time.Sleep(c.lasts)
				}
				s.finished()
			})
			seen := p.seen()
			if left := len(seen) != 1 || len(seen[0].Buttons) > 0; left != (c.want == "") || !left && !strings.HasSuffix(seen[0].Text, c.want) {
				t.Errorf("seen: %+v", seen)
			}
			if bound := 20 + int(c.lasts/time.Minute); p.asked > bound {
				t.Errorf("the platform was called %d times, want at most %d", p.asked, bound)
			}
		})
	}
}
