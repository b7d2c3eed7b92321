// Package delay pauses a goroutine until a time has passed or its context ends.
package delay

import (
	"context"
	"time"
)

// Wait waits for d. It returns false if ctx ended first, or had ended before.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
