package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
)

// A request that stopped at the limit of a day continues by itself on the next day, also if the
// program did not run at midnight. The last two rows are controls.
func TestARequestAtADailyLimitContinuesAfterMidnight(t *testing.T) {
	effort.SkipSlow(t)
	day := session.Limits{Day: session.Budget{Steps: 1}}
	for name, c := range map[string]struct {
		limits session.Limits
		wait   time.Duration
		down   bool // from before midnight until late the next day
		want   event.RequestState
	}{
		"it waits":                       {day, 24 * time.Hour, false, event.StateDone},
		"the program was down":           {day, 24 * time.Hour, true, event.StateDone},
		"midnight was before the end":    {day, 5 * time.Hour, true, event.StateDone},
		"the wait ends before midnight":  {day, 2 * time.Hour, false, event.StateFailed},
		"the limit is not that of a day": {session.Limits{Session: session.Budget{Steps: 1}}, 24 * time.Hour, false, event.StateStreaming},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				today := time.Now().UTC().Day() // the bubble begins at midnight
				model := func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
					if time.Now().UTC().Day() == today {
						return loops(ctx, req, say)
					}
					return chat.Text(chat.Assistant, "done"), nil
				}
				o := rigOptions{dir: t.TempDir(), do: model, change: func(o *session.Options) {
					o.Settings.Limits = c.limits
					o.Settings.Limits.Wait = c.wait
				}}
				r := newRig(t, o)
				defer func() { r.stop() }()
				time.Sleep(20 * time.Hour)
				r.send("web:s1:r1", "m1", event.Prompt, "go")
				r.pauses(1)
				if c.down {
					r.stop()
					time.Sleep(8 * time.Hour)
					r = newRig(t, o)
				} else {
					time.Sleep(3*time.Hour + 59*time.Minute)
					if req := r.request("web:s1:r1"); req.State.Ended() && c.want != event.StateFailed {
						t.Fatalf("ended before midnight as %s: %s", req.State, req.Detail)
					}
				}
				time.Sleep(10 * time.Minute)
				if req := r.request("web:s1:r1"); req.State != c.want {
					t.Errorf("after midnight it is %s (%s), want %s", req.State, req.Detail, c.want)
				}
			})
		})
	}
}
