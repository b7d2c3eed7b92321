package environment

import "lilac/internal/foundation/event"

// A rule has one state per session. It is idle, or it holds one event back for
// its debounce. These are the legal transitions:
//
//	state    input         condition                    next     effects
//	idle     Arrived       several sessions, one title  idle     Record noSession
//	idle     Arrived       the action is Drop           idle     Perform
//	idle     Arrived       the chain is too deep        idle     Record depth
//	idle     Arrived       no debounce                  idle     (limits)
//	idle     Arrived       debounce                     holding  -
//	holding  Arrived       debounce, another event      holding  Record merged
//	holding  HoldExpired   the rule is in force         idle     (limits)
//	holding  HoldExpired   gone, off or not limited     idle     Record dropped
//	holding  HoldFailed    -                            holding  -
//	holding  ClockSetBack  -                            holding  -
//	any      Charged       the budget allows it         same     Record workflow
//	any      Charged       the budget is exhausted      same     Record budget, AnnounceStop
//
// (limits) stands for the first of these that applies:
//
//	the rate is reached      Record rate
//	the budget is exhausted  Record budget, AnnounceStop
//	dry run                  Record dryRun
//	otherwise                Perform
type State struct {
	// Hold is the event that a debounce holds back, or nil.
	Hold *Hold
	// Recent counts the runs within the span of the rule's rate.
	Recent int64
	// Used is the usage of the day, in the units that the rule's budget limits.
	Used Budget
}

// Hold is an event that a debounce holds back.
type Hold struct {
	Rule, SessionID string
	Event           event.EnvEvent
	// First is when the rule began to hold events back, Due when it handles the
	// last one. Both are Unix milliseconds.
	First, Due int64
}

// The outcomes of an event that matched a rule.
const (
	// OutcomeAgent, OutcomePublished, and OutcomeDropped name the action that
	// was performed.
	OutcomeAgent     = "agent"
	OutcomePublished = "published"
	OutcomeDropped   = "dropped"
	// OutcomeWorkflow is a request of a workflow that the rule led to.
	OutcomeWorkflow = "workflow"
	// OutcomeDryRun is an action that a dry run left out; OutcomeMerged is an
	// event that a later one replaced during a debounce.
	OutcomeDryRun = "dryRun"
	OutcomeMerged = "merged"
	// OutcomeRate, OutcomeBudget, OutcomeDepth, and OutcomeNoSession are the
	// reasons for doing nothing.
	OutcomeRate      = "rate"
	OutcomeBudget    = "budget"
	OutcomeDepth     = "depth"
	OutcomeNoSession = "noSession"
	// OutcomeFailed is an event for which the condition of the rule failed, or that could
	// not be handled after its debounce. The run has the error.
	OutcomeFailed = "failed"
)

// Run records one act of a rule, or an event about which it did nothing.
type Run struct {
	Rule      string     `json:"rule"`
	EventID   string     `json:"eventId"`
	Type      event.Type `json:"type"`
	SessionID string     `json:"sessionId,omitempty"`
	// MessageID is the message that the session's runner received, and RequestID
	// the request that the message starts if the session is idle.
	MessageID string `json:"messageId,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	Outcome   string `json:"outcome"`
	// Error is the reason of OutcomeFailed.
	Error string `json:"error,omitempty"`
	Depth int    `json:"depth"`
	At    int64  `json:"at"` // Unix milliseconds
}

// acted reports whether the run counts as one of the rule's runs; all others
// are refusals, of which only the newest are kept.
func (r Run) acted() bool {
	return r.Outcome == OutcomeAgent || r.Outcome == OutcomePublished || r.Outcome == OutcomeWorkflow
}

func (r Run) withOutcome(outcome string) Run {
	r.Outcome = outcome
	return r
}
