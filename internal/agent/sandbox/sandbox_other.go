//go:build !linux

package sandbox

import (
	"context"
	"errors"
)

var errNotLinux = errors.New("commands can be confined on Linux only")

func detectBubblewrap(context.Context) (Sandbox, error) { return nil, errNotLinux }

func detectNamespaces(context.Context) (Sandbox, error) { return nil, errNotLinux }

func enter() {}

func boundsRoot() bool { return false }

// Landlock returns zero, because only Linux has it.
func Landlock() int { return 0 }
