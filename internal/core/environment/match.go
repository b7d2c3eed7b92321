package environment

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/foundation/event"
)

// Matches reports whether a pattern of the rule covers the event.
func (r Rule) Matches(e event.EnvEvent) bool {
	return slices.ContainsFunc(r.Types, func(pattern string) bool {
		if pattern == "*" {
			return !ObserverOnly(e.Type) && !reportedByTool(e)
		}
		return matchesType(pattern, e.Type)
	})
}

// matchesType reports whether a pattern that is not "*" covers the type.
func matchesType(pattern string, t event.Type) bool {
	if prefix, ok := strings.CutSuffix(pattern, ".*"); ok {
		rest, has := strings.CutPrefix(string(t), prefix+".")
		return has && rest != ""
	}
	return pattern == string(t)
}

// reportedByTool reports whether the agent has received the event already: the
// result of a tool that failed in a request is in that request. To wake the agent
// again would cost a model call for each command that fails.
func reportedByTool(e event.EnvEvent) bool {
	return e.Type == event.ToolFailed && e.Metadata.Extra[event.MetadataRequest] != nil
}

// ObserverOnly reports whether events of the type only describe what happened.
// "*" does not cover them: an agent that reacts to its own output would never
// stop.
func ObserverOnly(t event.Type) bool {
	for _, prefix := range []string{"session.", "stream.", "rule."} {
		if strings.HasPrefix(string(t), prefix) {
			return true
		}
	}
	return t == event.ToolExecuted || t == event.BackgroundTaskStarted || t == event.BackgroundTaskProgress
}

// MatchResult is the result of matching one rule against an event.
type MatchResult struct {
	Rule string `json:"rule"`
	// Why says why the rule does not match. It is empty for the rule that
	// handles the event.
	Why string `json:"why,omitempty"`
}

// Match returns the rule that handles the event: of the enabled rules that
// match, the one with the highest priority, then the first registered. The
// results are those of the rules before it, in this order, and its own. A
// condition that fails does not hold.
func Match(rules []Rule, e event.EnvEvent) (match Rule, ok bool, results []MatchResult) {
	order := slices.Clone(rules)
	slices.SortStableFunc(order, func(a, b Rule) int { return b.Priority - a.Priority })
	about := NewSubject(e)
	for _, r := range order {
		why := r.mismatch(about)
		results = append(results, MatchResult{Rule: r.Name, Why: why})
		if why == "" {
			return r, true, results
		}
	}
	return Rule{}, false, results
}

// mismatch returns why the rule does not match, or "".
func (r Rule) mismatch(s Subject) string {
	e := s.event
	switch {
	case !r.Enabled:
		return "it is not enabled"
	case !r.Matches(e) && ObserverOnly(e.Type):
		return "it does not name the type, and * does not cover events that only describe"
	case !r.Matches(e) && reportedByTool(e):
		return "it does not name the type, and * does not cover errors that the agent received from its tool"
	case !r.Matches(e):
		return "the type is different"
	case r.Session != "" && r.Session != e.Metadata.TriggerSessionID:
		return "the session is different"
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

// conditionFailed begins the reason for a condition that could not be evaluated.
const conditionFailed = "its condition failed: "
