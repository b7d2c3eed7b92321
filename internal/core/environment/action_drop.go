package environment

import "context"

// Drop is the action that forgets the event.
type Drop struct{}

var _ Action = Drop{}

// Name implements [Action].
func (Drop) Name() string { return "drop" }

// DryRun implements [Action].
func (Drop) DryRun(Call, *Trial) error { return nil }

// Do implements [Action].
func (Drop) Do(_ context.Context, c Call) (Run, error) {
	return c.Run.withOutcome(OutcomeDropped), nil
}
