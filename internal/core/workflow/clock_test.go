package workflow_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/testkit/effort"
)

// A clock that was hours ahead is put right while the program runs, or is away: a
// delay and a time-out last as long as they were to, and a moment that somebody named
// stays that moment.
func TestAClockThatIsSetBackMakesNothingWaitLonger(t *testing.T) {
	effort.SkipSlow(t)
	for name, c := range map[string]struct {
		ahead, after time.Duration
		restart      bool
		// delay, reply and long are how long they wait, from the begin.
		delay, reply, long time.Duration
	}{
		"while it runs":                  {5 * time.Hour, 8 * time.Minute, false, 30 * time.Minute, time.Hour, 3 * time.Hour},
		"while it runs, late":            {5 * time.Hour, 50 * time.Minute, false, 30 * time.Minute, time.Hour, 3 * time.Hour},
		"while it is away":               {5 * time.Hour, 8 * time.Minute, true, 38 * time.Minute, 68 * time.Minute, 188 * time.Minute},
		"by days":                        {200 * time.Hour, 8 * time.Minute, false, 30 * time.Minute, time.Hour, 3 * time.Hour},
		"control: by nothing":            {0, 8 * time.Minute, false, 30 * time.Minute, time.Hour, 3 * time.Hour},
		"control: by nothing, and again": {0, 8 * time.Minute, true, 30 * time.Minute, time.Hour, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				begun, moment := time.Now(), 210*time.Hour
				if c.ahead < 10*time.Hour {
					moment = 8 * time.Hour
				}
				w.ahead.Store(int64(c.ahead))
				w.start()
				w.submit(definition("delay", "", delay("a", 30*time.Minute)))
				w.submit(definition("reply", "", reply("a", "1", "")))
				w.submit(definition("long", "", delay("a", 10*time.Minute), delay("b", 3*time.Hour)))
				w.submit(definition("moment", "", spec("a", workflow.KindMoment, workflow.TaskInput{At: begun.Add(moment).UnixMilli()})))
				time.Sleep(c.after)
				if c.restart {
					w.restart()
				}
				w.ahead.Store(0)
				if c.restart {
					w.start()
				}
				for _, waits := range []struct {
					id   string
					time time.Duration
				}{{"delay", c.delay}, {"reply", c.reply}, {"long", c.long}, {"moment", moment}} {
					time.Sleep(time.Until(begun.Add(waits.time - time.Minute)))
					if got := w.get(waits.id); time.Since(begun) < waits.time && got.State != workflow.Waiting {
						t.Errorf("%s is over too early: %+v", waits.id, got)
					}
					time.Sleep(time.Until(begun.Add(waits.time + time.Minute)))
					if got := w.get(waits.id); got.State != workflow.Resolved {
						t.Errorf("%s waits too long: %+v", waits.id, got)
					}
				}
			})
		})
	}
}

// A clock may also be wrong when it is set back: who waits does so no longer than
// from the beginning.
func TestAClockThatIsSetBackWronglyMakesNothingWaitLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.submit(definition("delay", "", delay("a", time.Hour)))
		time.Sleep(20*time.Minute + 30*time.Second) // between two looks at the clock
		for range 3 {
			w.ahead.Add(-int64(5 * time.Hour))
			time.Sleep(time.Minute)
		}
		time.Sleep(35*time.Minute + 30*time.Second)
		if got := w.get("delay"); got.State != workflow.Waiting {
			t.Errorf("it is over too early: %+v", got)
		}
		time.Sleep(12 * time.Minute) // the clock is looked at every minute
		if got := w.get("delay"); got.State != workflow.Resolved {
			t.Errorf("it waits too long: %+v", got)
		}
	})
}

// What became due while the machine was suspended happens within a minute.
func TestAWaitThatCameDueDuringASuspendEndsWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.submit(definition("delay", "", delay("a", time.Hour)))
		time.Sleep(90 * time.Second)
		w.ahead.Add(int64(2 * time.Hour))
		time.Sleep(time.Minute)
		if got := w.get("delay"); got.State != workflow.Resolved {
			t.Errorf("a minute after the suspend it is %s", got.State)
		}
	})
}
