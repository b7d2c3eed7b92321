package sqlitebus_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// Events that were admitted while the database could not be written go to the next
// consumer: the cursor must not move past them without their pending rows, however soon
// the database recovers.
func TestEventsOfAnAbandonedWriteAreRedelivered(t *testing.T) {
	effort.SkipSlow(t)
	delivered := make(chan struct{}, 100)
	database, b := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	ctx := context.Background()
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	events := bustest.Events(bustest.Topic, "e", 3)
	if err := b.Publish(ctx, events...); err != nil {
		t.Fatal(err)
	}
	alter(t, database, func(tx *db.Tx) error { return dbtest.Refuse(tx, "INSERT", "bus_pending") })

	// The trigger rejects only pending rows, as if the disk had space again by the time
	// the consumer leaves.
	consuming, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- b.Subscribe(consuming, s, func(context.Context, bus.Delivery) error {
			delivered <- struct{}{}
			return nil
		})
	}()
	deadline := time.Now().Add(time.Minute)
	for b.Healthy(ctx) == nil {
		if time.Now().After(deadline) {
			t.Fatal("a group that cannot write is healthy")
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(delivered) > 0 {
		t.Error("an event was delivered uncounted")
	}
	alter(t, database, func(tx *db.Tx) error { return dbtest.Allow(tx, "bus_pending") })

	consuming, stop = context.WithTimeout(ctx, time.Minute)
	defer stop()
	var got []string
	err := b.Subscribe(consuming, s, func(_ context.Context, d bus.Delivery) error {
		if got = append(got, d.ID); len(got) == len(events) {
			stop()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"e0", "e1", "e2"}, got); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}

func alter(t *testing.T, database *db.DB, change func(tx *db.Tx) error) {
	t.Helper()
	if err := database.Update(context.Background(), change); err != nil {
		t.Fatal(err)
	}
}
