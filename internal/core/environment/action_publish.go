package environment

import (
	"context"
	"fmt"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// Derive is the action that publishes another event, which it makes out of this
// one.
type Derive func(event.EnvEvent) (event.EnvEvent, error)

var _ Action = Derive(nil)

// Name implements [Action].
func (Derive) Name() string { return "publish" }

// DryRun implements [Action].
func (d Derive) DryRun(c Call, t *Trial) error {
	next, err := d(c.Event)
	next.Metadata.TriggerSessionID = c.SessionID
	t.Event = &next
	return err
}

// Do implements [Action].
func (d Derive) Do(ctx context.Context, c Call) (Run, error) {
	next, err := d(c.Event)
	if err != nil {
		return Run{}, bus.Permanent(fmt.Errorf("make event: %w", err))
	}
	next.Metadata.TriggerSessionID = c.SessionID
	if _, err := PublishTraced(c.Tx, c.service.o.Inbox, withDepth(derived(next, c.Event), c.Run.Depth+1), event.TraceParent(ctx)); err != nil {
		return Run{}, err
	}
	return c.Run.withOutcome(OutcomePublished), nil
}
