package environment_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
)

// A condition that fails says that the event is not what the operator expected. It costs no model
// call: the rule's record has the error, and only rules of the operator may handle the event. The
// control has a condition that does not hold: then the fallback wakes the agent.
func TestAFailedConditionDoesNotReachTheFallback(t *testing.T) {
	last := func(w *world) (runs []environment.Run) {
		t.Helper()
		if err := w.db.Read(t.Context(), func(q db.Queryer) (err error) {
			runs, err = store.RuleRuns{}.LastRuns(q, "ci", 10)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return runs
	}
	for name, c := range map[string]struct {
		condition string
		others    []environment.Rule
		commands  bool
		error     string
	}{
		"it fails":                     {`.payload.n | test("a")`, nil, false, "cannot be applied"},
		"control: it does not hold":    {`.payload.n == 2`, nil, true, ""},
		"another rule may be about it": {`.payload.n | test("a")`, []environment.Rule{agentRule("build.*")}, true, "cannot be applied"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := compiled(t, func(s *environment.Spec) { s.If = c.condition })
			rules := slices.Concat([]environment.Rule{r}, c.others, w.defaults())
			w.start(inbox{}, rules...)
			e := observed("e1", "s", `{"n":1}`)
			w.publish(e)
			w.publish(query("q1", "s", event.UserQueryPayload{RequestID: "web:s:r", MessageID: "m", Content: "hi", Client: "web"})) // handled after it
			commands := w.commands(map[bool]int{true: 2, false: 1}[c.commands])
			if woken := slices.ContainsFunc(commands, func(e event.Event) bool { return strings.HasPrefix(e.ID, "e1/") }); woken != c.commands {
				t.Errorf("the agent was woken: %t, want %t", woken, c.commands)
			}
			runs := last(w)
			if failed := len(runs) == 1 && runs[0].Outcome == environment.OutcomeFailed && runs[0].EventID == "e1" && strings.Contains(runs[0].Error, c.error); failed != (c.error != "") {
				t.Errorf("recorded %+v", runs)
			}
			trial := environment.Try(rules, e, nil)
			if tried := trial.Rule != ""; tried != c.commands || !c.commands && !strings.Contains(trial.Problem, c.error) {
				t.Errorf("the dry run says %+v", trial)
			}
		})
	}
}
