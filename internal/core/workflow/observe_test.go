package workflow_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
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

// countedWaits counts the lookups of workflows that wait for events.
type countedWaits struct {
	workflow.Waits
	lookups atomic.Int64
}

func (c *countedWaits) WaitingForEvents(q db.Queryer, sessionID string) ([]string, error) {
	c.lookups.Add(1)
	return c.Waits.WaitingForEvents(q, sessionID)
}

func TestEventsCostNoReadWhileNoWorkflowWaitsForOne(t *testing.T) {
	w := newWorld(t)
	waits := &countedWaits{Waits: store.WorkflowWaits{}}
	w.close()
	w.weaken = func() (workflow.Table, workflow.Waits) { return store.Workflows{}, waits }
	w.open()
	events := 0
	observe := func() {
		events++
		if err := w.svc.Observe(t.Context(), event.EnvEvent{ID: fmt.Sprint(events), Type: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	lookups := func(want int64) {
		t.Helper()
		if got := waits.lookups.Swap(0); got != want {
			t.Errorf("%d lookups, want %d", got, want)
		}
	}
	for range 5 {
		observe()
	}
	lookups(1)

	w.submit(definition("w", "", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}})))
	observe()
	lookups(2)
	if got := w.get("w"); got.State != workflow.Resolved {
		t.Errorf("the workflow is %s, want resolved", got.State)
	}
	for range 5 {
		observe()
	}
	lookups(1)
}

// slowTable waits after it has saved a workflow, within the transaction.
type slowTable struct {
	workflow.Table
	saved func()
}

func (t slowTable) SaveWorkflow(tx *db.Tx, w workflow.Workflow) error {
	defer t.saved()
	return t.Table.SaveWorkflow(tx, w)
}

func TestAnEventReachesAWaitThatIsJustBeingCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		commit := make(chan struct{})
		w.close()
		w.weaken = func() (workflow.Table, workflow.Waits) {
			return slowTable{store.Workflows{}, func() { <-commit }}, store.WorkflowWaits{}
		}
		w.open()
		observe := func(id string) {
			if err := w.svc.Observe(context.Background(), event.EnvEvent{ID: id, Type: "x"}); err != nil {
				t.Error(err)
			}
		}
		observe("1") // nothing waits, which is remembered
		go func() {
			if err := w.svc.Submit(context.Background(), asker, nil, definition("w", "", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}}))); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go observe("2")
		synctest.Wait()
		close(commit)
		synctest.Wait()
		if got := w.get("w"); got.State != workflow.Resolved {
			t.Errorf("the workflow is %s, want resolved", got.State)
		}
	})
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
