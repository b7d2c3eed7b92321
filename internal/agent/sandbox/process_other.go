//go:build !linux

package sandbox

import (
	"context"

	"lilac/internal/foundation/fault"
)

// run refuses: the promises about what is left of a command are kept with
// means that only Linux has.
func (p process) run(context.Context) (ending, error) {
	return ending{}, fault.New(fault.Unavailable, "Commands can be run on Linux only.")
}
