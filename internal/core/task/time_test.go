package task_test

import (
	"slices"
	"testing"
	"time"

	"lilac/internal/core/task"
	"lilac/internal/foundation/event"
)

func TestATaskEndsAtItsTime(t *testing.T) {
	for name, o := range map[string]task.Spec{
		"a command":   {Command: "say forever", Time: time.Minute},
		"a sub-agent": {Prompt: "look", Time: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				started := w.start(o)
				time.Sleep(time.Minute - time.Second)
				if got := w.state(started.ID); got != task.Running {
					t.Errorf("before its time it is %s", got)
				}
				time.Sleep(3 * time.Second) // a sub-agent is looked at every second
				told := w.told(event.BackgroundTaskTimeout)
				if w.state(started.ID) != task.Timeout || len(told) != 1 || told[0].Error != "It did not end within 1m0s and was stopped." {
					t.Errorf("it is %s and told %+v", w.state(started.ID), told)
				}
				if o.Prompt != "" && !slices.Equal(w.asked(), []event.Type{event.CmdRequestMessage, event.CmdRequestCancel}) {
					t.Errorf("the runner was asked %v", w.asked())
				}
				if n := w.commands.count(0); n != 0 || w.svc.Running() != 0 {
					t.Errorf("%d commands run", n)
				}
			})
		})
	}
}

// A clock that was ahead when it began and was put right since gives it no more time.
func TestAClockThatWasAheadGivesATaskNoMoreTime(t *testing.T) {
	for name, restart := range map[string]bool{"while it runs": false, "over a restart": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.ahead.Store(int64(5 * time.Hour))
				started := w.start(task.Spec{Prompt: "look", Time: time.Minute})
				w.ahead.Store(0)
				if restart {
					w.close()
					w.open()
				}
				time.Sleep(time.Minute - time.Second)
				if got := w.state(started.ID); got != task.Running {
					t.Errorf("before its time it is %s", got)
				}
				time.Sleep(3 * time.Second)
				if got := w.state(started.ID); got != task.Timeout {
					t.Errorf("it is %s", got)
				}
			})
		})
	}
}

// A suspend of the machine, and a clock that is set ahead, leave a sub-agent its time.
func TestASuspendTakesNoTimeFromASubAgent(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		started := w.start(task.Spec{Prompt: "look", Time: time.Minute})
		time.Sleep(30 * time.Second)
		w.ahead.Store(int64(70 * time.Minute))
		time.Sleep(15 * time.Second)
		if got := w.state(started.ID); got != task.Running {
			t.Errorf("after a suspend it is %s", got)
		}
		w.close() // the time that is left outlives a restart
		w.open()
		time.Sleep(10 * time.Second)
		if got := w.state(started.ID); got != task.Running {
			t.Errorf("after a restart it is %s", got)
		}
		time.Sleep(30 * time.Second)
		if got := w.state(started.ID); got != task.Timeout {
			t.Errorf("control: after its time it is %s", got)
		}
	})
}
