package workflow_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/workflow"
)

func everyTenMinutes(id string) workflow.Spec {
	return spec(id, workflow.KindSchedule, workflow.Input{Cron: "@every 10m"})
}

// While the request of a run waits for its turn, no other one is made: it
// stands for what comes due meanwhile. When it has begun, the next run is due
// at its time.
func TestRunsOfAScheduleDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var waits atomic.Bool
		waits.Store(true)
		w.queued = func(requestID string) bool { return requestID == "wf:w:1" && waits.Load() }
		w.submit(definition("w", "", everyTenMinutes("a")))
		w.submit(definition("control", "", everyTenMinutes("a"))) // nothing of it waits
		w.start()
		made := func(id string) (n int) {
			for _, line := range w.woken() {
				if strings.HasPrefix(line, "wf:"+id+":") {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Hour + time.Minute)
		if got := made("w"); got != 1 {
			t.Errorf("in an hour in which the first one waits %d requests are made", got)
		}
		if got := made("control"); got != 6 {
			t.Errorf("control: in an hour %d requests are made", got)
		}
		waits.Store(false)
		time.Sleep(10 * time.Minute)
		if got := made("w"); got != 2 {
			t.Errorf("when it has begun %d requests are made", got)
		}
		if got := w.get("w"); got.State != workflow.Waiting || got.Tasks[0].Runs != 2 {
			t.Errorf("it is %+v", got)
		}
	})
}

// A schedule wakes nobody for ever.
func TestAScheduleEndsWithItsConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var gone atomic.Bool
		w.known = func(string) bool { return !gone.Load() }
		w.submit(definition("w", "", everyTenMinutes("a")))
		w.start()
		time.Sleep(15 * time.Minute)
		if got := w.get("w"); got.State != workflow.Waiting || got.Due() == 0 {
			t.Errorf("control: while there is one it is %+v", got)
		}
		gone.Store(true)
		time.Sleep(10 * time.Minute)
		if got := w.get("w"); got.State != workflow.Cancelled || got.Due() != 0 || got.Detail == "" {
			t.Errorf("it is %+v", got)
		}
		if woken := w.woken(); len(woken) != 1 {
			t.Errorf("woken: %q", woken)
		}
	})
}
