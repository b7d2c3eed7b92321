package observe

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// tailPause is the wait before a tail that broke is begun again.
const tailPause = time.Second

// Requests measures requests by their lifecycle on the bus, until ctx ends.
// created returns when a request was made, in Unix milliseconds.
func (o *Observer) Requests(ctx context.Context, b bus.Bus, created func(ctx context.Context, requestID string) (int64, error)) error {
	for ctx.Err() == nil {
		err := b.Tail(ctx, bus.Tail{Topic: event.TopicRequest, FromNow: true}, func(d bus.Delivery) error {
			payload, err := event.Decode(d.Event)
			change, ok := payload.(event.RequestLifecycle)
			if err != nil || !ok || !change.State.Ended() {
				return nil // another event of the topic
			}
			at, err := created(ctx, d.Headers.RequestID())
			if err != nil {
				return err
			}
			o.requests.Observe(max(0, float64(change.TS-at))/1000, string(change.State), d.Headers.Client())
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		// A gap in what is measured is no reason to stop the program.
		if err != nil && !errors.Is(err, bus.ErrTrimmed) {
			timer := time.NewTimer(tailPause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
	return nil
}
