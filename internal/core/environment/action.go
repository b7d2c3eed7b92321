package environment

import (
	"context"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Action is what a rule does with an event. Each implementation has its own file,
// action_*.go; a new action is a new file and one line in compileDo.
type Action interface {
	// Name names the action in the configuration and the API.
	Name() string
	// DryRun adds to the trial what Do would do. It changes nothing. Its error
	// says why Do would fail.
	DryRun(c Call, t *Trial) error
	// Do performs the action in the transaction c.Tx and returns c.Run with its
	// outcome and the ids of what it started. It must not wait for a model. A
	// permanent error ([bus.Permanent]) is not retried.
	Do(ctx context.Context, c Call) (Run, error)
}

// Call is one performance of an action.
type Call struct {
	Rule      Rule
	Event     event.EnvEvent
	SessionID string
	// Run is the record of the call, without its outcome.
	Run Run
	// Tx is the transaction of the decision. It is nil for a [Function], which
	// has Delivery instead and commits the event itself.
	Tx       *db.Tx
	Delivery bus.Delivery

	service *Service
	// sources are those of [Options], for a dry run.
	sources SourceTools
}
