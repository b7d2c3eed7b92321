//go:build !linux

package sandbox

import (
	"context"

	"lilac/internal/foundation/fault"
)

// run returns an error, because ending all processes of a command reliably needs features
// of Linux.
func (p process) run(context.Context) (ending, error) {
	return ending{}, fault.New(fault.Unavailable, "Commands can be run on Linux only.")
}
