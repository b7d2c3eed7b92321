package environment_test

import (
	"testing"
	"time"

	"lilac/internal/db"
	"lilac/internal/environment"
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
				if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return w.store().AddRun(tx, run) }); err != nil {
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
