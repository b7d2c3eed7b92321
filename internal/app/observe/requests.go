package observe

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

// tailPause is the delay before a failed tail is restarted.
const tailPause = time.Second

// Requests records the durations of requests from their lifecycle events on the bus, until ctx
// ends. created returns the creation time of a request in Unix milliseconds.
func (o *Observer) Requests(ctx context.Context, b bus.Log, created func(ctx context.Context, requestID string) (int64, error)) error {
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
		// Missing measurements must not stop the program, so try again.
		if err != nil && !errors.Is(err, bus.ErrTrimmed) {
			delay.Wait(ctx, tailPause)
		}
	}
	return nil
}
