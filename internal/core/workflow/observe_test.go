package workflow_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/logtest"
)

// Conditions that never end hold up an event for a second in all, and are no
// reason that another task misses it.
func TestConditionsThatTakeTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		workflows int
		hears     bool // surely: else it is a matter of who looks first
	}{
		"some take their share":   {workflows: 3, hears: true},
		"many take all the time":  {workflows: 8},
		"control: none takes any": {hears: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var log logtest.Log
				w.close()
				w.logger = slog.New(slog.NewTextHandler(&log, nil))
				w.open()
				for i := range c.workflows {
					var tasks []workflow.Spec
					for n := range workflow.MaxTasks {
						tasks = append(tasks, spec(fmt.Sprint("t", n), workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}, If: "endless"}))
					}
					w.submit(definition(fmt.Sprint("endless-", i), "", tasks...))
				}
				w.submit(definition("waits", "", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}})))
				begun := time.Now()
				if err := w.svc.Observe(t.Context(), event.EnvEvent{ID: "1", Type: "x"}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("the event is held up for %s", took)
				}
				if got := w.get("waits"); c.hears && got.State != workflow.Resolved {
					t.Errorf("what waits for the event is %s", got.State)
				}
				want := 0
				if c.workflows > 0 {
					want = 1
				}
				if got := strings.Count(log.String(), "cannot evaluate the conditions"); got != want {
					t.Errorf("it is told %d times:\n%s", got, log.String())
				}
			})
		})
	}
}

// A machine that was busy with something else is no reason to miss an event.
func TestAConditionThatWasInterruptedIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, id := range []string{"one", "two"} {
			w.submit(definition(id, "", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}, If: "slow at first"})))
		}
		if err := w.svc.Observe(t.Context(), event.EnvEvent{ID: "1", Type: "x"}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"one", "two"} {
			if got := w.get(id); got.State != workflow.Resolved {
				t.Errorf("%s is %s", id, got.State)
			}
		}
	})
}
