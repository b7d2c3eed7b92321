package environment

import (
	"context"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// Function is an action in Go. It runs outside a transaction, because it may
// block. It can commit the event together with its own writes by calling d.Ack;
// otherwise, the event is committed when the function returns nil.
type Function func(ctx context.Context, d bus.Delivery, e event.EnvEvent) error

var _ Action = Function(nil)

// Name implements [Action].
func (Function) Name() string { return "function" }

// DryRun implements [Action]. A function has no dry run.
func (Function) DryRun(Call, *Trial) error { return nil }

// Do implements [Action].
func (f Function) Do(ctx context.Context, c Call) (Run, error) {
	return Run{}, f(ctx, c.Delivery, c.Event)
}
