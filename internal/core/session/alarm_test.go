package session_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

// Timers stand still while the machine sleeps, and they ignore changes of the wall clock. The
// deadline that users see is a wall clock time, so pauses must follow the wall clock.
func TestAPauseEndsByTheWallClock(t *testing.T) {
	effort.SkipSlow(t)
	for name, c := range map[string]struct {
		moved time.Duration // change of the wall clock, one hour after the question
		ended time.Duration // time on the timers by which the pause must have ended
		open  time.Duration // time on the timers at which the pause must still be open
	}{
		"the machine slept":               {20 * time.Hour, 5 * time.Hour, 3 * time.Hour},
		"it slept beyond the deadline":    {48 * time.Hour, 2 * time.Hour, 0},
		"the clock was set back":          {-10 * time.Hour, 35 * time.Hour, 33 * time.Hour},
		"control: time passed as it does": {0, 25 * time.Hour, 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				r := newRig(t, rigOptions{do: loops, change: func(o *session.Options) {
					o.Settings.Limits = session.Limits{Request: session.Budget{Steps: 1}, Wait: 24 * time.Hour}
					o.Now = func() time.Time { return time.Now().Add(time.Duration(moved.Load())) }
				}})
				defer r.stop()
				begun := time.Now()
				r.send("web:s1:r1", "m1", event.Prompt, "go")
				r.pauses(1)
				time.Sleep(time.Hour)
				moved.Store(int64(c.moved))
				time.Sleep(c.open - time.Since(begun))
				if req := r.request("web:s1:r1"); req.State.Ended() {
					t.Fatalf("ended too early as %s: %s", req.State, req.Detail)
				}
				time.Sleep(c.ended - time.Since(begun))
				if req := r.request("web:s1:r1"); req.State != event.StateFailed {
					t.Errorf("the deadline is over, and it is %s", req.State)
				}
			})
		})
	}
}
