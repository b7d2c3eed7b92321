//go:build !unix

package cli

import "lilac/internal/foundation/fault"

// canRestart means that the program can replace itself.
const canRestart = false

// startAgain is not possible here.
func startAgain() error {
	return fault.New(fault.Unavailable, "Lilac cannot restart itself on this system.")
}
