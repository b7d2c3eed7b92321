package discord

import (
	"context"
	"time"
)

// signal wakes one goroutine. Notifications that arrive before it looks again
// are merged into one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

// notify wakes the goroutine and never blocks.
func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default: // it is about to look anyway
	}
}

// wait waits for a notification, for a time if again is not nil, or for the end
// of ctx, which it returns as an error.
func (s signal) wait(ctx context.Context, again <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s:
	case <-again:
	}
	return nil
}
