package environment

import (
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// The outcomes of an event that a rule was to act on.
const (
	// OutcomeAgent, OutcomePublished and OutcomeDropped are what was done.
	OutcomeAgent     = "agent"
	OutcomePublished = "published"
	OutcomeDropped   = "dropped"
	// OutcomeWorkflow is a request that a workflow made which the rule led to.
	OutcomeWorkflow = "workflow"
	// OutcomeDryRun is what would have been done, OutcomeMerged an event that a
	// later one replaced within the time of a debounce.
	OutcomeDryRun = "dryRun"
	OutcomeMerged = "merged"
	// OutcomeRate, OutcomeBudget, OutcomeDepth and OutcomeNoSession are why
	// nothing was done.
	OutcomeRate      = "rate"
	OutcomeBudget    = "budget"
	OutcomeDepth     = "depth"
	OutcomeNoSession = "noSession"
	// OutcomeFailed is an event that could not be handled after it had waited.
	OutcomeFailed = "failed"
)

// Run is one thing that a rule did, or an event about which it did nothing.
type Run struct {
	Rule      string     `json:"rule"`
	EventID   string     `json:"eventId"`
	Type      event.Type `json:"type"`
	SessionID string     `json:"sessionId,omitempty"`
	// MessageID is the message that the session's runner was given, and
	// RequestID the request that it starts if nothing runs there.
	MessageID string `json:"messageId,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	Outcome   string `json:"outcome"`
	Depth     int    `json:"depth"`
	At        int64  `json:"at"` // Unix milliseconds
}

// Wait is an event that a debounce holds back.
type Wait struct {
	Rule, SessionID string
	Event           event.EnvEvent
	// First and Due are Unix milliseconds: since when, and until when.
	First, Due int64
}

// Records are what the service remembers, in the caller's transaction.
type Records interface {
	// Handled reports whether a rule acted on the event.
	Handled(q db.Queryer, eventID string) (bool, error)
	// AddRun keeps a run, AddRefusal an event about which the rule did nothing
	// until many newer ones came; KeepEvent keeps an event for get_event_info.
	AddRun(tx *db.Tx, r Run) error
	AddRefusal(tx *db.Tx, r Run) error
	KeepEvent(tx *db.Tx, sessionID string, e event.EnvEvent) error
	// KeptEvent returns an event that was kept for the session, or a
	// fault.NotFound.
	KeptEvent(q db.Queryer, sessionID, eventID string) (event.EnvEvent, error)
	// DepthOf is the depth of the event that led to a request, also by way of a
	// workflow or of a sub-agent; 0 if none did.
	DepthOf(q db.Queryer, requestID string) (int, error)
	// WorksFor is the request that a sub-agent's works for; any other works for
	// itself.
	WorksFor(q db.Queryer, requestID string) (string, error)
	// StartedBy is the run that started a request, or led to the workflow that
	// made it, if one did.
	StartedBy(q db.Queryer, requestID string) (Run, bool, error)
	// Queued are the requests that a rule started in a session and that have
	// not begun.
	Queued(q db.Queryer, rule, sessionID string) ([]string, error)
	// RunsWithin counts what a rule did in a session after a moment and until
	// another, if wanted with the requests that workflows made for it; SpentBy is
	// what the requests used that it set off there on a day, with their sub-agents
	// and workflows.
	RunsWithin(q db.Queryer, rule, sessionID string, after, until time.Time, workflows bool) (int64, error)
	SpentBy(q db.Queryer, rule, sessionID string, day time.Time) (Budget, error)
	// CountOutcome counts an outcome of the rule, session and day.
	CountOutcome(tx *db.Tx, rule, sessionID, outcome string, at time.Time) error
	// Waiting returns what waits for a rule and session, if anything does.
	Waiting(q db.Queryer, rule, sessionID string) (Wait, bool, error)
	PutWait(tx *db.Tx, w Wait) error
	DropWait(tx *db.Tx, rule, sessionID string) error
	// NextWait returns what is due first, if anything waits.
	NextWait(q db.Queryer) (Wait, bool, error)
	// WaitAhead returns one that began after now, if there is one.
	WaitAhead(q db.Queryer, now time.Time) (Wait, bool, error)
	// LastRuns are the newest runs of a rule and as many of the newest events
	// about which it did nothing; CountsOf are its outcomes since a moment, and
	// what its runs have used since then.
	LastRuns(q db.Queryer, rule string, limit int) ([]Run, error)
	CountsOf(q db.Queryer, rule string, since time.Time) (map[string]int64, Budget, error)
}
