package environment_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
)

// What a rule of the file held back is no function's of the same name.
func TestAWaitIsNotForARuleThatIsAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, compiled(t, func(s *environment.Spec) { s.Name, s.Debounce = "user_stop", time.Hour }))
		w.send(1, "s")
		time.Sleep(time.Minute)
		w.close() // and the rule is taken out of the file
		w.open()
		w.start(inbox{}, w.defaults()...)
		time.Sleep(time.Hour + time.Minute)
		if got := w.log.String(); !strings.Contains(got, "dropped a held event") || strings.Contains(got, "trying again later") {
			t.Errorf("the log says:\n%s", got)
		}
	})
}

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
