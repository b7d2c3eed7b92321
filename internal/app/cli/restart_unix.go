//go:build unix

package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// canRestart means that the program can replace itself.
const canRestart = true

// startAgain replaces this process with a new one of the same program, arguments, and process id, so
// that a service manager does not notice. It returns only an error.
func startAgain() error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	// After an upgrade, the kernel marks the old program; the new one has its name.
	program = strings.TrimSuffix(program, " (deleted)")
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	return nil
}
