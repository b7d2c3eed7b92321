package environment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/bus"
	"lilac/internal/event"
)

// Handler does what a rule is for. The delivery gives it the chance to commit
// the event together with its own writes; without that it is committed when
// the handler returns nil.
type Handler func(ctx context.Context, d bus.Delivery, e event.EnvEvent) error

// Rule says which events set off what: one of Handler, Agent, Publish and Drop.
type Rule struct {
	// Name identifies the rule in logs, in the records of what it did, and
	// towards the agent.
	Name string
	// Types are patterns: an exact type, "prefix.*", or "*" for every type
	// that is not observer-only. One of them must match.
	Types []string
	// Session, when set, is the only session whose events match.
	Session string
	// If, when set, has to hold for the event.
	If Condition
	// Enabled rules take part in matching.
	Enabled bool
	// Priority decides between rules that match: the highest wins, then the
	// first registered.
	Priority int

	// Handler is a function. What follows below Drop is not for it.
	Handler Handler
	// Agent wakes the agent in the session.
	Agent *Agent
	// Publish makes another event of this one.
	Publish func(event.EnvEvent) (event.EnvEvent, error)
	// Drop forgets the event.
	Drop bool

	// Target says which session the event is for, as an id or as
	// "title:" and the title of one; nil takes the one that triggered it.
	Target func(event.EnvEvent) (string, error)
	// Debounce waits until no event came for the session for this long, then
	// handles the last one.
	Debounce time.Duration
	// Rate and Budget bound what the rule does in one session.
	Rate   Rate
	Budget Budget
	// DryRun counts what the rule would do, and does nothing.
	DryRun bool
}

// Condition tells whether an event has what a rule asks for.
type Condition func(event.EnvEvent) (bool, error)

// Rate is at most Runs in any span of Per. Zero is no limit.
type Rate struct {
	Runs int
	Per  time.Duration
}

// Budget is what a rule may use in one session on one day, UTC. Zero of
// anything is no limit.
type Budget struct {
	Runs       int64 `json:"runs,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
	CostMicros int64 `json:"costMicros,omitempty"` // millionths of a US dollar
}

// Used is what a rule did in one session: runs within the span of its rate,
// and everything of the day.
type Used struct {
	Recent int64
	Budget
}

// Over says which limit of the rule forbids another run, or "".
func (r Rule) Over(u Used) string {
	switch {
	case r.Rate.Runs > 0 && u.Recent >= int64(r.Rate.Runs):
		return OutcomeRate
	case r.Budget.Runs > 0 && u.Runs >= r.Budget.Runs,
		r.Budget.Tokens > 0 && u.Tokens >= r.Budget.Tokens,
		r.Budget.CostMicros > 0 && u.CostMicros >= r.Budget.CostMicros:
		return OutcomeBudget
	}
	return ""
}

// Matches reports whether a pattern of the rule covers the type.
func (r Rule) Matches(t event.Type) bool {
	return slices.ContainsFunc(r.Types, func(pattern string) bool { return covers(pattern, t) })
}

func covers(pattern string, t event.Type) bool {
	if pattern == "*" {
		return !ObserverOnly(t)
	}
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, has := strings.CutPrefix(string(t), prefix+".")
		return has && rest != ""
	}
	return pattern == string(t)
}

// ObserverOnly reports whether events of the type only describe what happened,
// so that "*" must not turn them into work: an agent that reacts to its own
// output would never stop.
func ObserverOnly(t event.Type) bool {
	for _, prefix := range []string{"session.", "stream.", "rule."} {
		if strings.HasPrefix(string(t), prefix) {
			return true
		}
	}
	return t == event.ToolExecuted || t == event.BackgroundTaskProgress
}

// Look is what became of one rule when an event was held against it.
type Look struct {
	Rule string `json:"rule"`
	// Why is empty for the rule that handles the event.
	Why string `json:"why,omitempty"`
}

// Match returns the rule that handles the event: of the enabled rules that
// match, the one of the highest priority, then the first registered. It looks
// at them in this order and tells why those before did not match. A condition
// that fails is one that does not hold.
func Match(rules []Rule, e event.EnvEvent) (Rule, bool, []Look) {
	order := slices.Clone(rules)
	slices.SortStableFunc(order, func(a, b Rule) int { return b.Priority - a.Priority })
	var looks []Look
	for _, r := range order {
		why := r.misses(e)
		looks = append(looks, Look{Rule: r.Name, Why: why})
		if why == "" {
			return r, true, looks
		}
	}
	return Rule{}, false, looks
}

// misses says why the rule does not match, or "".
func (r Rule) misses(e event.EnvEvent) string {
	switch {
	case !r.Enabled:
		return "it is not enabled"
	case !r.Matches(e.Type) && ObserverOnly(e.Type):
		return "it does not name the type, and * does not cover what only describes"
	case !r.Matches(e.Type):
		return "the type is another"
	case r.Session != "" && r.Session != e.Metadata.TriggerSessionID:
		return "the session is another"
	case r.If == nil:
		return ""
	}
	switch holds, err := r.If(e); {
	case err != nil:
		return conditionFailed + err.Error()
	case !holds:
		return "its condition does not hold"
	}
	return ""
}

// conditionFailed begins the reason of a condition that could not be decided.
const conditionFailed = "its condition failed: "

// MaxDepth is how many events may cause each other, one after the other.
const MaxDepth = 8

// tooDeep reports whether a chain of events has to end.
func tooDeep(depth int) bool { return depth > MaxDepth }

// depthKey is the field of an event's metadata that counts the events before it.
const depthKey = "depth"

// requestKey is the field that names the request whose work caused the event.
const requestKey = "request_id"

func withDepth(e event.EnvEvent, depth int) event.EnvEvent {
	extra := make(map[string]jsonValue, len(e.Metadata.Extra)+1)
	for k, v := range e.Metadata.Extra {
		extra[k] = v
	}
	extra[depthKey] = jsonValue(fmt.Sprint(depth))
	e.Metadata.Extra = extra
	return e
}
