package environment

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// Rule says which events cause which action.
type Rule struct {
	// Name identifies the rule in logs, in the records of its runs, and to the
	// agent.
	Name string
	// Types are patterns: an exact type, "prefix.*", or "*" for every type
	// that is not observer-only. One of them must match.
	Types []string
	// Session, when set, is the only session whose events match.
	Session string
	// If, when set, must hold for the event.
	If Condition
	// Enabled rules take part in matching.
	Enabled bool
	// Priority decides between rules that match: the highest wins, then the
	// first registered.
	Priority int
	// Fallback is set for the built-in rule for all other events. It does not handle an
	// event for which the condition of a rule before it failed.
	Fallback bool

	// Action is what the rule does. A [Function] and [Drop] ignore the limits
	// below.
	Action Action
	// reads announces what a [Function] will read; see [bus.Subscription]. It may be nil.
	reads func(tx *db.Tx, e event.EnvEvent)

	// Target returns the session to act in, as an id or as "title:" and a
	// session's title; nil means the session that triggered the event.
	Target func(event.EnvEvent) (string, error)
	// Debounce waits until no event has come for the session for this long, then
	// handles the last one.
	Debounce time.Duration
	// Rate and Budget bound what the rule does in one session.
	Rate   Rate
	Budget Budget
	// Tools restricts the requests that the rule starts.
	Tools grant.Tools
	// DryRun counts what the rule would do, and does nothing.
	DryRun bool
}

// ActionName returns the name of the rule's action, as the API shows it.
func (r Rule) ActionName() string {
	if r.Action == nil {
		return "function"
	}
	return r.Action.Name()
}

// limited reports whether the limits of the rule apply to its action, and
// whether a debounce may hold its events back.
func (r Rule) limited() bool {
	switch r.Action.(type) {
	case Function, Drop, nil:
		return false
	}
	return true
}

// target returns the session that the rule acts in, as an id or a title.
func (r Rule) target(e event.EnvEvent) (string, error) {
	if r.Target == nil {
		return e.Metadata.TriggerSessionID, nil
	}
	return r.Target(e)
}

// Condition reports whether an event has what a rule asks for.
type Condition func(context.Context, Subject) (bool, error)

// Rate allows at most Runs in any span of Per. Zero is no limit.
type Rate struct {
	Runs int
	Per  time.Duration
}

// Reached reports whether the rate forbids another run now.
func (r Rate) Reached(recent int64) bool { return r.Runs > 0 && recent >= int64(r.Runs) }

// String returns the rate in the form of the configuration, or "" for none.
func (r Rate) String() string {
	if r.Runs == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Runs, r.Per)
}

// Budget is what a rule may use in one session on one day, UTC. A zero field is
// no limit.
type Budget struct {
	Runs       int64 `json:"runs,omitempty"`
	Tokens     int64 `json:"tokens,omitempty"`
	CostMicros int64 `json:"costMicros,omitempty"` // millionths of a US dollar
}

// metered reports whether the budget bounds the usage of the model.
func (b Budget) metered() bool { return b.Tokens > 0 || b.CostMicros > 0 }

// Exhausted is a part of a budget that is used up. Used and Allowed are runs,
// tokens, or millionths of a US dollar.
type Exhausted struct {
	Limit   string `json:"limit"` // runs, tokens or money
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
}

// Exhausted returns the first part of the budget that is used up, or nil.
func (b Budget) Exhausted(used Budget) *Exhausted {
	for _, e := range []Exhausted{
		{"runs", used.Runs, b.Runs}, {"tokens", used.Tokens, b.Tokens}, {"money", used.CostMicros, b.CostMicros},
	} {
		if e.Allowed > 0 && e.Used >= e.Allowed {
			return &e
		}
	}
	return nil
}

// sentence tells people in the session why the rule stops.
func (e Exhausted) sentence(rule string) string {
	amount := func(n int64) string {
		if e.Limit == "money" {
			return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)
		}
		return strconv.FormatInt(n, 10)
	}
	unit := " " + e.Limit
	if e.Limit == "money" {
		unit = ""
	}
	return fmt.Sprintf("The rule %s has used up its budget for today in this conversation (%s of %s%s), so it does nothing more here until midnight UTC.",
		rule, amount(e.Used), amount(e.Allowed), unit)
}
