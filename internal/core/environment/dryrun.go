package environment

import (
	"fmt"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// Trial describes what an event would cause.
type Trial struct {
	// Rule is empty when no rule handles the event.
	Rule string `json:"rule,omitempty"`
	// Does names the action of the rule.
	Does string `json:"does,omitempty"`
	// Session is the session to act in, as an id or "title:" and a title.
	Session string `json:"session,omitempty"`
	// Deliver and Prompt are what the agent would receive after the event, System what it would
	// be told with the operator's authority.
	Deliver event.Queue `json:"deliver,omitempty"`
	Prompt  string      `json:"prompt,omitempty"`
	System  string      `json:"system,omitempty"`
	// Agent is the configured agent that would do the work, or "".
	Agent string `json:"agent,omitempty"`
	// Tools are the restrictions of the request: what may be used. Without one,
	// everything may.
	Tools grant.Grant `json:"tools,omitempty"`
	// Event is the event that would be published.
	Event *event.EnvEvent `json:"event,omitempty"`
	// Debounce, Rate, and DryRun may hold the action back.
	Debounce string `json:"debounce,omitempty"`
	Rate     string `json:"rate,omitempty"`
	DryRun   bool   `json:"dryRun,omitempty"`
	// Problem says why the rule could not act.
	Problem string `json:"problem,omitempty"`
	// Matches are the results of the rules, in the order in which they were
	// tried.
	Matches []MatchResult `json:"looks"`
}

const problemDepth = "The event is the last of a chain in which too many events caused each other: the rule would do nothing."

// Try describes what the event would cause in a session without any usage, and
// changes nothing. It makes the same decisions as the [Service]. sources may be nil: then
// the default holds for every source.
func Try(rules []Rule, e event.EnvEvent, sources SourceTools) Trial {
	r, ok, results := Match(rules, e)
	t := Trial{Matches: results}
	if why := unreachable(string(e.Type)); why != "" {
		t.Problem = "No rule receives events of this type: " + why + "."
		return t
	}
	if !ok {
		if failed := failures(results); len(failed) > 0 {
			t.Problem = fmt.Sprintf("The condition of the rule %s failed (%s), so the event is only recorded.", failed[0].Rule, failed[0].Error)
		}
		return t
	}
	t.Rule, t.Does, t.Rate, t.DryRun = r.Name, r.ActionName(), r.Rate.String(), r.DryRun
	if r.Debounce > 0 {
		t.Debounce = r.Debounce.String()
	}
	var err error
	if t.Session, err = r.target(e); err != nil {
		t.Problem = err.Error()
		return t
	}
	r.DryRun = false // show what it leaves out
	state, effects := Decide(State{}, Arrived{Rule: r, Event: e, SessionID: t.Session, Depth: max(depthOf(e), 1)}, time.UnixMilli(e.Timestamp))
	if state.Hold != nil {
		_, effects = Decide(state, HoldExpired{Rule: r, InForce: true}, time.UnixMilli(state.Hold.Due))
	}
	for _, effect := range effects {
		switch effect := effect.(type) {
		case Perform:
			if r.Action == nil {
				continue
			}
			if err := r.Action.DryRun(Call{Rule: r, Event: effect.Event, SessionID: t.Session, Run: effect.Run, sources: sources}, &t); err != nil {
				t.Problem = err.Error()
			}
		case Record: // an empty session has reached no limit but this one
			t.Problem = problemDepth
		case AnnounceStop:
		}
	}
	return t
}
