package environment

import (
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// Runs keeps what rules did. Package store implements it.
type Runs interface {
	// Handled reports whether a rule acted on the event.
	Handled(q db.Queryer, eventID string) (bool, error)
	// AddRun keeps a run. AddRefusal keeps an event about which the rule did
	// nothing, until many newer ones come.
	AddRun(tx *db.Tx, r Run) error
	AddRefusal(tx *db.Tx, r Run) error
	// CountOutcome counts an outcome per rule, session, and day.
	CountOutcome(tx *db.Tx, rule, sessionID, outcome string, at time.Time) error
	// RunsWithin counts the runs of a rule in a session after one time and until
	// another. With workflows it includes the requests of workflows that the rule
	// led to.
	RunsWithin(q db.Queryer, rule, sessionID string, after, until time.Time, workflows bool) (int64, error)
	// SpentBy returns the usage of the requests that the rule caused in the
	// session on a day, including their sub-agents and workflows.
	SpentBy(q db.Queryer, rule, sessionID string, day time.Time) (Budget, error)
}

// Holds keeps the events that debounces hold back, at most one per rule and
// session. Package store implements it.
type Holds interface {
	// Waiting returns the held event of a rule and session, if there is one.
	Waiting(q db.Queryer, rule, sessionID string) (Hold, bool, error)
	PutWait(tx *db.Tx, h Hold) error
	DropWait(tx *db.Tx, rule, sessionID string) error
	// NextWait returns the held event that is due first, if there is one.
	NextWait(q db.Queryer) (Hold, bool, error)
	// WaitAhead returns a held event whose debounce began after now, if there is
	// one.
	WaitAhead(q db.Queryer, now time.Time) (Hold, bool, error)
}

// Causes finds the events and rules that led to a request. Package store
// implements it.
type Causes interface {
	// DepthOf returns the depth of the event that led to a request, directly or
	// through a workflow or a sub-agent; 0 if none did.
	DepthOf(q db.Queryer, requestID string) (int, error)
	// GrantOf returns what a request may use; nothing restricts an unknown one.
	GrantOf(q db.Queryer, requestID string) (grant.Grant, error)
	// WorksFor returns the request that started a sub-agent's request, and every
	// other request itself.
	WorksFor(q db.Queryer, requestID string) (string, error)
	// StartedBy returns the run that started a request, or that led to its
	// workflow, if there is one.
	StartedBy(q db.Queryer, requestID string) (Run, bool, error)
	// Queued lists the requests that a rule started in a session and that have
	// not begun.
	Queued(q db.Queryer, rule, sessionID string) ([]string, error)
}

// Events keeps the events that the agent received, for get_event_info. Package
// store implements it.
type Events interface {
	KeepEvent(tx *db.Tx, sessionID string, e event.EnvEvent) error
	// KeptEvent returns an event of the session, or a fault.NotFound.
	KeptEvent(q db.Queryer, sessionID, eventID string) (event.EnvEvent, error)
}

// Inbox remembers what was accepted from a source. Seen inserts the pair of
// source and external id with a value. If the pair exists, Seen returns the value
// of the first time.
type Inbox interface {
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// Sessions finds the sessions that rules act in.
type Sessions struct {
	// Client returns the surface of a session, and whether the session exists.
	// If Client is nil, every session exists.
	Client func(q db.Queryer, sessionID string) (client string, exists bool, err error)
	// Titled returns the id of the session with a title, or "". If several have
	// it, the error is a fault.Conflict that names them.
	Titled func(q db.Queryer, title string) (sessionID string, err error)
}
