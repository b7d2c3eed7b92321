package environment_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
)

// What a rule did while the clock was far ahead, which somebody has set right since,
// holds it back neither now nor until that time has come.
func TestAClockThatWasAheadHoldsUpNoRule(t *testing.T) {
	for name, change := range map[string]func(*environment.Spec){
		"rate":   func(s *environment.Spec) { s.Rate = "1/1h" },
		"budget": func(s *environment.Spec) { s.Budget.Runs = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			rule := compiled(t, change)
			ran := func(id string, at time.Time) {
				run := environment.Run{Rule: rule.Name, EventID: id, SessionID: "s", Outcome: environment.OutcomeAgent, At: at.UnixMilli()}
				if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return w.store().RuleRuns.AddRun(tx, run) }); err != nil {
					t.Fatal(err)
				}
			}
			ran("ahead", time.Now().Add(365*24*time.Hour))
			w.start(inbox{}, rule)
			w.send(1, "s")
			eventually(t, "the agent is told of the event", func() bool { return len(w.woken()) == 1 })
			ran("now", time.Now()) // control
			w.publish(observed("again", "s", `{}`))
			eventually(t, "the next one is held back", func() bool {
				return w.sum(environment.OutcomeRate, environment.OutcomeBudget) == 1
			})
		})
	}
}

// What a debounce holds back when a clock that was ahead is put right waits for as
// long as it was to, also behind what another rule holds back for longer.
func TestAClockThatIsSetBackHoldsUpNoDebounce(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"by hours": 5 * time.Hour, "control: by nothing": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				quick := compiled(t, func(s *environment.Spec) { s.Debounce = 10 * time.Minute })
				slow := compiled(t, func(s *environment.Spec) {
					s.Name, s.Debounce, s.Session, s.Priority = "slow", 20*time.Hour, "slow", 90
				})
				w.start(inbox{}, quick, slow)
				w.publish(observed("slow", "slow", `{}`))
				time.Sleep(inAWhile)
				w.ahead.Store(int64(ahead))
				w.publish(observed("quick", "s", `{}`))
				time.Sleep(5 * time.Minute)
				w.ahead.Store(0)
				time.Sleep(4 * time.Minute)
				if got := w.runnerGot(); len(got) > 0 {
					t.Errorf("before its time %q is handled", got)
				}
				time.Sleep(8 * time.Minute)
				if got := w.runnerGot(); !slices.Equal(got, []string{"env:s:quick"}) {
					t.Errorf("a quarter of an hour later %q is handled", got)
				}
			})
		})
	}
}
