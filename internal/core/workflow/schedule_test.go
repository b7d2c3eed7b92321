package workflow_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

func everyTenMinutes(id string) workflow.Spec {
	return spec(id, workflow.KindSchedule, workflow.TaskInput{Cron: "@every 10m"})
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

// A clock that was far ahead has planned the next run for then. When it is right, the
// schedule goes on; a run that is planned for the next time, or the one behind it,
// stays.
func TestAScheduleOfAClockThatWasAheadGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		planned := map[string]time.Duration{"next": 10 * time.Minute, "behind": 20 * time.Minute, "ahead": 9 * 365 * 24 * time.Hour}
		for id, at := range planned {
			w.submit(definition(id, "", everyTenMinutes("a")))
			w.update(func(tx *db.Tx) error {
				tables := store.New(w.db)
				flow, err := tables.Workflows.Workflow(tx, id)
				if err != nil {
					return err
				}
				flow.Tasks[0].Due = time.Now().Add(at).UnixMilli()
				return tables.Workflows.SaveWorkflow(tx, flow)
			})
		}
		w.start()
		time.Sleep(15 * time.Minute)
		for id, want := range map[string]int{"next": 1, "behind": 0, "ahead": 1} {
			if got := w.get(id).Tasks[0].Runs; got != want {
				t.Errorf("after a quarter of an hour %s ran %d times, want %d", id, got, want)
			}
		}
		time.Sleep(10 * time.Minute)
		for id, want := range map[string]int{"next": 2, "behind": 1, "ahead": 2} {
			if got := w.get(id).Tasks[0].Runs; got != want {
				t.Errorf("and then %s %d times, want %d", id, got, want)
			}
		}
	})
}
