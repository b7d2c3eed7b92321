package environment_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/environment"
)

// What cannot be handled when it is due is tried again, and what is due behind it is not held up.
func TestAWaitThatFailsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stuck.Store(true)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Debounce = time.Hour }))
		w.publish(observed("first", "stuck", `{}`))
		time.Sleep(time.Minute)
		w.publish(observed("second", "s", `{}`))
		time.Sleep(time.Hour + time.Minute)
		if diff := cmp.Diff([]string{"env:s:second"}, w.runnerGot()); diff != "" {
			t.Error(diff)
		}
		w.stuck.Store(false)
		time.Sleep(2 * time.Minute)
		if diff := cmp.Diff([]string{"env:s:second", "env:stuck:first"}, w.runnerGot()); diff != "" {
			t.Errorf("when it can be handled: %s", diff)
		}
	})
}
