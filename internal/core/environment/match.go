package environment

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/order"
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

// unreachable says why no event that a pattern covers reaches a rule, or "".
func unreachable(pattern string) string {
	if pattern == "*" {
		return ""
	}
	if _, onBus := event.Lookup(event.Type(pattern)); onBus {
		return notEnvironment
	}
	known, published := false, false
	for _, t := range event.EnvTypes() {
		if matchesType(pattern, t) {
			known, published = true, published || !event.StreamOnly(t)
		}
	}
	prefix, family := strings.CutSuffix(pattern, ".*")
	switch {
	case published:
		return ""
	case known:
		return "they are only shown on the event stream (GET /events)"
	case family && slices.ContainsFunc(event.All(), func(d event.Def) bool { return matchesType(pattern, d.Type) }):
		return notEnvironment
	case IsReserved(event.Type(prefix)):
		return "Lilac publishes no such events, and nobody else may"
	}
	return ""
}

// notEnvironment is the reason for types of the bus.
const notEnvironment = "they belong to the bus itself and are no environment events"

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
	// Error says why the condition of the rule could not be evaluated.
	Error string `json:"error,omitempty"`
}

// Match returns the rule that handles the event: of the enabled rules that
// match, the one with the highest priority, then the first registered. The
// results are those of the rules before it, in this order, and its own. A
// condition that fails does not hold. Then the event is perhaps not what the
// operator expected, so other rules may handle it, but not the built-in fallback,
// which would wake the agent for it.
func Match(rules []Rule, e event.EnvEvent) (match Rule, ok bool, results []MatchResult) {
	if !slices.IsSortedFunc(rules, byPriority) {
		rules = order.Sorted(slices.Values(rules), byPriority)
	}
	about := NewSubject(e)
	failed := false
	for _, r := range rules {
		why, err := r.mismatch(about)
		result := MatchResult{Rule: r.Name, Why: why}
		switch {
		case err != nil:
			failed, result.Error = true, err.Error()
		case why == "" && r.Fallback && failed:
			why = "the condition of a rule failed, so the event is only recorded"
			result.Why = why
		}
		results = append(results, result)
		if why == "" {
			return r, true, results
		}
	}
	return Rule{}, false, results
}

func byPriority(a, b Rule) int { return b.Priority - a.Priority }

// mismatch returns why the rule does not match, or "". The error is that of its condition.
func (r Rule) mismatch(s Subject) (why string, err error) {
	e := s.event
	switch {
	case unreachable(string(e.Type)) != "":
		return "no rule receives events of this type", nil
	case !r.Enabled:
		return "it is not enabled", nil
	case !r.Matches(e) && ObserverOnly(e.Type):
		return "it does not name the type, and * does not cover events that only describe", nil
	case !r.Matches(e) && reportedByTool(e):
		return "it does not name the type, and * does not cover errors that the agent received from its tool", nil
	case !r.Matches(e):
		return "the type is different", nil
	case r.Session != "" && r.Session != e.Metadata.TriggerSessionID:
		return "the session is different", nil
	case r.If == nil:
		return "", nil
	}
	switch holds, err := r.If(context.Background(), s); {
	case err != nil:
		return "its condition failed: " + err.Error(), err
	case !holds:
		return "its condition does not hold", nil
	}
	return "", nil
}

// failures returns the results of the rules whose conditions failed.
func failures(results []MatchResult) (out []MatchResult) {
	for _, r := range results {
		if r.Error != "" {
			out = append(out, r)
		}
	}
	return out
}
