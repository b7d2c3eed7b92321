package sqlitebus_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
)

// consume subscribes until stop is called. stop returns when the subscription has ended.
func consume(t *testing.T, engine *sqlitebus.Bus, s bus.Subscription, h bus.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- engine.Subscribe(ctx, s, h) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
	t.Cleanup(stop)
	return stop
}

func publish(t *testing.T, engine *sqlitebus.Bus, id, lane string) {
	t.Helper()
	if err := engine.Publish(context.Background(), bustest.Event(bustest.Topic, id, lane)); err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// An event for an idle consumer has its first attempt counted in the
// transaction that appends it: one commit to publish, one of the handler.
// The control has two consumers; then a transaction counts in between.
func TestAnIdleConsumerCostsNoTransactionOfItsOwn(t *testing.T) {
	const events = 20
	for _, row := range []struct {
		name      string
		consumers []string
		extra     bool
	}{{"one consumer", []string{"a"}, false}, {"control: two consumers", []string{"a", "b"}, true}} {
		t.Run(row.name, func(t *testing.T) {
			var commits atomic.Int64
			database, engine := openBus(t, t.TempDir(), db.Options{OnCommit: func(done bool) {
				if done {
					commits.Add(1)
				}
			}}, sqlitebus.Options{TrimEvery: -1})
			handled := make(chan string, 1)
			for _, name := range row.consumers {
				consume(t, engine, bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: name, FromBegin: true}, func(ctx context.Context, d bus.Delivery) error {
					if err := database.Update(ctx, d.Ack); err != nil {
						return err
					}
					handled <- name
					return nil
				})
			}
			ready := map[string]bool{} // a consumer that has handled an event
			for i := 0; len(ready) < len(row.consumers); i++ {
				publish(t, engine, fmt.Sprint("warm-up-", i), fmt.Sprint("w", i))
				ready[receive(t, handled)] = true
			}
			last := commits.Load()
			for i := range events {
				publish(t, engine, "event-"+string(rune('a'+i)), "l"+string(rune('a'+i)))
				receive(t, handled)
			}
			each := float64(commits.Load()-last) / events
			if extra := each > 2.5; extra != row.extra {
				t.Errorf("%.1f commits for each event", each)
			}
		})
	}
}

func TestAttemptIsCountedWhenTheHandlerBegins(t *testing.T) {
	database, engine := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	counted, leave := make(chan int, 1), make(chan struct{})
	consume(t, engine, bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: "a", FromBegin: true}, func(ctx context.Context, d bus.Delivery) error {
		var attempt int
		err := database.Read(ctx, func(q db.Queryer) error {
			return q.QueryRow("SELECT attempt FROM bus_pending").Scan(&attempt)
		})
		counted <- attempt
		<-leave
		return err
	})
	publish(t, engine, "event", "l")
	if n := receive(t, counted); n != 1 {
		t.Errorf("%d attempts counted while the first one runs", n)
	}
	close(leave)
}

func TestStoppingWhileWaitingInALaneIsNotAnAttempt(t *testing.T) {
	_, engine := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	s := bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: "a", FromBegin: true}
	begun, block := make(chan string, 4), make(chan struct{})
	stop := consume(t, engine, s, func(_ context.Context, d bus.Delivery) error {
		begun <- d.ID
		<-block
		return nil
	})
	publish(t, engine, "runs", "l")
	if id := receive(t, begun); id != "runs" {
		t.Fatalf("%s began", id)
	}
	for _, id := range []string{"waits 1", "waits 2", "waits 3"} {
		publish(t, engine, id, "l")
	}
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	close(block)
	receive(t, stopped)
	later := make(chan bus.Delivery, 4)
	consume(t, engine, s, func(_ context.Context, d bus.Delivery) error { later <- d; return nil })
	for len(begun) > 0 { // handlers that started just before the stop
		<-begun
	}
	publish(t, engine, "last", "l")
	for {
		d := receive(t, later)
		if d.Attempt != 1 {
			t.Errorf("%s: attempt %d", d.ID, d.Attempt)
		}
		if d.ID == "last" {
			return
		}
	}
}

func TestRolledBackEventsAreNotDelivered(t *testing.T) {
	database, engine := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	got := make(chan bus.Delivery, 4)
	consume(t, engine, bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: "a", FromBegin: true},
		func(_ context.Context, d bus.Delivery) error { got <- d; return nil })
	publish(t, engine, "first", "l")
	receive(t, got)
	no := errors.New("no")
	err := database.Update(context.Background(), func(tx *db.Tx) error {
		if err := tx.Publish(bustest.Event(bustest.Topic, "never", "l")); err != nil {
			return err
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	for _, id := range []string{"second", "third"} {
		publish(t, engine, id, "l")
		if d := receive(t, got); d.ID != id || d.Attempt != 1 {
			t.Errorf("got %s, attempt %d; want %s", d.ID, d.Attempt, id)
		}
	}
}
