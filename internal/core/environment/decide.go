package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
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
type Condition func(context.Context, Subject) (bool, error)

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

// metered reports whether the budget bounds what the agent uses.
func (b Budget) metered() bool { return b.Tokens > 0 || b.CostMicros > 0 }

// Over reports whether the rate of the rule forbids another run now.
func (r Rate) Over(recent int64) bool { return r.Runs > 0 && recent >= int64(r.Runs) }

// Reached is a part of a budget that is used up. Used and Allowed are runs,
// tokens, or millionths of a US dollar.
type Reached struct {
	Limit   string `json:"limit"` // runs, tokens or money
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
}

// Over returns the first part of the budget that is used up, or nil.
func (b Budget) Over(used Budget) *Reached {
	for _, r := range []Reached{
		{"runs", used.Runs, b.Runs}, {"tokens", used.Tokens, b.Tokens}, {"money", used.CostMicros, b.CostMicros},
	} {
		if r.Allowed > 0 && r.Used >= r.Allowed {
			return &r
		}
	}
	return nil
}

// sentence is what people are told when a rule stops.
func (r Reached) sentence(rule string) string {
	amount := func(n int64) string {
		if r.Limit == "money" {
			return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)
		}
		return strconv.FormatInt(n, 10)
	}
	thing := " " + r.Limit
	if r.Limit == "money" {
		thing = ""
	}
	return fmt.Sprintf("The rule %s has used up its budget for today in this conversation (%s of %s%s), so it does nothing more here until midnight UTC.",
		rule, amount(r.Used), amount(r.Allowed), thing)
}

// Matches reports whether a pattern of the rule covers the event.
func (r Rule) Matches(e event.EnvEvent) bool {
	return slices.ContainsFunc(r.Types, func(pattern string) bool {
		if pattern == "*" {
			return !ObserverOnly(e.Type) && !known(e)
		}
		return names(pattern, e.Type)
	})
}

// names reports whether a pattern that is not "*" covers the type.
func names(pattern string, t event.Type) bool {
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, has := strings.CutPrefix(string(t), prefix+".")
		return has && rest != ""
	}
	return pattern == string(t)
}

// known reports whether the agent knows the event already: a tool that failed
// in a request has told the model there. To wake it again for that would cost a
// model call for each command that does not end well.
func known(e event.EnvEvent) bool {
	return e.Type == event.ToolFailed && e.Metadata.Extra[event.MetadataRequest] != nil
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
	return t == event.ToolExecuted || t == event.BackgroundTaskStarted || t == event.BackgroundTaskProgress
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
	about := About(e)
	var looks []Look
	for _, r := range order {
		why := r.misses(about)
		looks = append(looks, Look{Rule: r.Name, Why: why})
		if why == "" {
			return r, true, looks
		}
	}
	return Rule{}, false, looks
}

// misses says why the rule does not match, or "".
func (r Rule) misses(s Subject) string {
	e := s.event
	switch {
	case !r.Enabled:
		return "it is not enabled"
	case !r.Matches(e) && ObserverOnly(e.Type):
		return "it does not name the type, and * does not cover what only describes"
	case !r.Matches(e) && known(e):
		return "it does not name the type, and * does not cover what the agent was told by its tool"
	case !r.Matches(e):
		return "the type is another"
	case r.Session != "" && r.Session != e.Metadata.TriggerSessionID:
		return "the session is another"
	case r.If == nil:
		return ""
	}
	switch holds, err := r.If(context.Background(), s); {
	case err != nil:
		return conditionFailed + err.Error()
	case !holds:
		return "its condition does not hold"
	}
	return ""
}

// conditionFailed begins the reason of a condition that could not be decided.
const conditionFailed = "its condition failed: "

// tooDeep reports whether a chain of events has to end.
func tooDeep(depth int) bool { return depth > event.MaxDepth }

// depthKey is the field of an event's metadata that counts the events before it.
const depthKey = "depth"

// CausedBy notes in an event the request whose work caused it, so that the
// events of a chain are counted.
func CausedBy(e event.EnvEvent, requestID string) event.EnvEvent {
	id, _ := json.Marshal(requestID) // a string always marshals
	return withExtra(e, event.MetadataRequest, id)
}

func withDepth(e event.EnvEvent, depth int) event.EnvEvent {
	return withExtra(e, depthKey, jsonValue(fmt.Sprint(depth)))
}

func withExtra(e event.EnvEvent, key string, value jsonValue) event.EnvEvent {
	extra := make(map[string]jsonValue, len(e.Metadata.Extra)+1)
	for k, v := range e.Metadata.Extra {
		extra[k] = v
	}
	extra[key] = value
	e.Metadata.Extra = extra
	return e
}
