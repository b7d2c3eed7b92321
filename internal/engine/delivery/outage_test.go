package delivery_test

import (
	"context"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/effort"
)

// An event whose handler meets a full disk, or a table that somebody has locked, waits until that has
// passed: it does not become a dead letter.
func TestAnOutageOfTheDatabaseIsNoAttempt(t *testing.T) {
	effort.SkipSlow(t)
	_, b := open(t)
	s := bus.Subscription{Topic: bustest.Topic, Group: "g", MaxAttempts: 2}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, bustest.Event(bustest.Topic, "e", "l")); err != nil {
		t.Fatal(err)
	}
	const outages = 3
	attempts, done, calls := make(chan int, outages+1), make(chan error, 1), 0
	go func() {
		done <- b.Subscribe(ctx, s, func(_ context.Context, d bus.Delivery) error {
			attempts <- d.Attempt
			if calls++; calls <= outages {
				return &fault.Error{Kind: fault.Unavailable, Code: "database_slow", Message: "PostgreSQL does not answer in time."}
			}
			return nil
		})
	}()
	for range outages + 1 {
		select {
		case attempt := <-attempts:
			if attempt != 1 {
				t.Errorf("attempt %d, want 1: an outage is none", attempt)
			}
		case <-time.After(time.Minute):
			t.Fatal("the event was given up")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if letters, err := b.DeadLetters(t.Context(), "", 10); err != nil || len(letters) > 0 {
		t.Errorf("dead letters: %v, %v", letters, err)
	}
}
