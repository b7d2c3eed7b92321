package environment

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/bus"
	"lilac/internal/event"
)

// Handler does what a rule is for. The delivery gives it the chance to commit
// the event together with its own writes; without that it is committed when
// the handler returns nil.
type Handler func(ctx context.Context, d bus.Delivery, e event.EnvEvent) error

// Rule says which events set off which handler.
type Rule struct {
	// Name identifies the rule in logs.
	Name string
	// Types are patterns: an exact type, "prefix.*", or "*" for every type
	// that is not observer-only. One of them must match.
	Types []string
	// Enabled rules take part in matching.
	Enabled bool
	// Priority decides between rules that match: the highest wins, then the
	// first registered.
	Priority int
	Handler  Handler
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
	switch {
	case strings.HasPrefix(string(t), "session."), strings.HasPrefix(string(t), "stream."):
		return true
	}
	return t == event.ToolExecuted || t == "background_task.progress"
}

// Match returns the rule that handles events of the type: of the enabled rules
// that match, the one of the highest priority, then the first registered.
func Match(rules []Rule, t event.Type) (Rule, bool) {
	best := -1
	for i, r := range rules {
		if r.Enabled && r.Matches(t) && (best < 0 || r.Priority > rules[best].Priority) {
			best = i
		}
	}
	if best < 0 {
		return Rule{}, false
	}
	return rules[best], true
}
