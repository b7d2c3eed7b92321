package environment_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/foundation/event"
)

// TestDecide is the table of state.go.
func TestDecide(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	at := func(d time.Duration) int64 { return now.Add(d).UnixMilli() }
	agent := rule("r", 1, "x")
	agent.Action = &environment.Agent{}
	with := func(change func(*environment.Rule)) environment.Rule {
		r := agent
		change(&r)
		return r
	}
	debounced := with(func(r *environment.Rule) { r.Debounce = time.Minute })
	rated := with(func(r *environment.Rule) { r.Rate = environment.Rate{Runs: 2, Per: time.Hour} })
	budgeted := with(func(r *environment.Rule) { r.Budget.Runs = 3 })
	dry := with(func(r *environment.Rule) { r.DryRun = true })
	drop := with(func(r *environment.Rule) {
		r.Action, r.DryRun, r.Rate, r.Budget.Runs = environment.Drop{}, true, environment.Rate{Runs: 1, Per: 1}, 1
	})
	arrived := func(r environment.Rule) environment.Arrived {
		return environment.Arrived{Rule: r, Event: custom("new", "s"), SessionID: "s", Depth: 1}
	}
	deep := arrived(agent)
	deep.Depth = event.MaxDepth + 1
	deepest := arrived(agent)
	deepest.Depth = event.MaxDepth
	ambiguous := arrived(agent)
	ambiguous.Ambiguous = true
	held := func(id string, first, due time.Duration) *environment.Hold {
		return &environment.Hold{Rule: "r", SessionID: "s", Event: custom(id, "s"), First: at(first), Due: at(due)}
	}
	used := func(recent, runs int64) environment.State {
		return environment.State{Recent: recent, Used: environment.Budget{Runs: runs}}
	}
	holding := environment.State{Hold: held("old", -time.Minute, time.Second)}
	expired := func(r environment.Rule, inForce bool) environment.HoldExpired {
		return environment.HoldExpired{Rule: r, InForce: inForce}
	}
	for name, c := range map[string]struct {
		state environment.State
		in    environment.Input
		want  []string
		hold  *environment.Hold // its event is only compared by id
	}{
		"an event is performed":                             {environment.State{}, arrived(agent), []string{"perform new"}, nil},
		"a session that is ambiguous":                       {environment.State{}, ambiguous, []string{"record new noSession"}, nil},
		"a drop has no limits":                              {used(9, 9), arrived(drop), []string{"perform new"}, nil},
		"the last event of a chain that may act":            {environment.State{}, deepest, []string{"perform new"}, nil},
		"a chain that is too deep":                          {environment.State{}, deep, []string{"record new depth"}, nil},
		"the rate allows it":                                {used(1, 0), arrived(rated), []string{"perform new"}, nil},
		"the rate is reached":                               {used(2, 0), arrived(rated), []string{"record new rate"}, nil},
		"the budget allows it":                              {used(0, 2), arrived(budgeted), []string{"perform new"}, nil},
		"the budget is exhausted":                           {used(0, 3), arrived(budgeted), []string{"record new budget", "announce runs"}, nil},
		"a dry run":                                         {environment.State{}, arrived(dry), []string{"record new dryRun"}, nil},
		"a debounce holds an event":                         {environment.State{}, arrived(debounced), nil, held("new", 0, time.Minute)},
		"a debounce replaces an event":                      {holding, arrived(debounced), []string{"record old merged"}, held("new", -time.Minute, time.Minute)},
		"a debounce ends after ten times as long":           {environment.State{Hold: held("old", -595*time.Second, 0)}, arrived(debounced), []string{"record old merged"}, held("new", -595*time.Second, 5*time.Second)},
		"a debounce after the clock was set back":           {environment.State{Hold: held("old", time.Hour, 2*time.Hour)}, arrived(debounced), []string{"record old merged"}, held("new", 0, time.Minute)},
		"an event that is delivered again stays held":       {environment.State{Hold: held("new", -time.Minute, time.Second)}, arrived(debounced), nil, held("new", -time.Minute, time.Second)},
		"a held event is due":                               {holding, expired(debounced, true), []string{"perform held old"}, nil},
		"a held event is due and the rule is not in force":  {holding, expired(environment.Rule{}, false), []string{"record old dropped"}, nil},
		"a held event is due and the rule drops events now": {holding, expired(drop, true), []string{"record old dropped"}, nil},
		"a held event is due and the rate is reached":       {environment.State{Hold: holding.Hold, Recent: 2}, expired(rated, true), []string{"record old rate"}, nil},
		"no event is held":                                  {environment.State{}, expired(debounced, true), nil, nil},
		"a held event could not be handled":                 {holding, environment.HoldFailed{}, nil, held("old", -time.Minute, time.Minute)},
		"a held event is from the future":                   {environment.State{Hold: held("old", time.Hour, 3*time.Hour)}, environment.ClockSetBack{}, nil, held("old", 0, 2*time.Hour)},
		"a workflow's request is charged":                   {used(0, 2), environment.Charged{Rule: budgeted, Run: environment.Run{EventID: "wf"}}, []string{"record wf workflow"}, nil},
		"a workflow's request is beyond the budget":         {used(0, 3), environment.Charged{Rule: budgeted, Run: environment.Run{EventID: "wf"}}, []string{"record wf budget", "announce runs"}, nil},
		"a workflow's request of a rule that is gone":       {used(0, 0), environment.Charged{Run: environment.Run{EventID: "wf"}}, []string{"record wf workflow"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			next, effects := environment.Decide(c.state, c.in, now)
			var got []string
			for _, e := range effects {
				switch e := e.(type) {
				case environment.Perform:
					text := "perform "
					if e.WasHeld {
						text += "held "
					}
					got = append(got, text+e.Event.ID)
				case environment.Record:
					if e.Run.At != now.UnixMilli() {
						t.Errorf("the run is recorded at %d, want %d", e.Run.At, now.UnixMilli())
					}
					got = append(got, "record "+e.Run.EventID+" "+e.Run.Outcome)
				case environment.AnnounceStop:
					got = append(got, "announce "+e.Exhausted.Limit)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
			simple := func(h *environment.Hold) *environment.Hold {
				if h == nil {
					return nil
				}
				plain := *h
				plain.Event = event.EnvEvent{ID: h.Event.ID}
				return &plain
			}
			if diff := cmp.Diff(simple(c.hold), simple(next.Hold)); diff != "" {
				t.Errorf("the held event (-want +got):\n%s", diff)
			}
		})
	}
}
