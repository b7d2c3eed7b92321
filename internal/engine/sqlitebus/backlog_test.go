package sqlitebus_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
)

// BenchmarkBacklog is P8: the CPU time per event of a group with a backlog, for short
// and long backlogs, with many lanes and with one. New groups handle short backlogs
// again until the number of events is that of a long one. With LILAC_LONG=1, the longest
// backlog has a million events.
func BenchmarkBacklog(b *testing.B) {
	const handled = 100_000
	sizes := []int{1000, 10_000, 100_000}
	if os.Getenv("LILAC_LONG") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, lanes := range []int{250, 1} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("lanes=%d/events=%d", lanes, size), func(b *testing.B) {
				_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
				for from := 0; from < size; from += 250 {
					var events []event.Event
					for i := range 250 {
						events = append(events, bustest.Event(bustest.Topic, fmt.Sprint("event-", from+i), fmt.Sprint("lane-", i%lanes)))
					}
					if err := engine.Publish(context.Background(), events...); err != nil {
						b.Fatal(err)
					}
				}
				consumeAll(b, engine, "warm-up", min(size, 1000))
				b.ResetTimer()
				cpu, events := processorTime(), 0
				for n := range b.N * max(1, handled/size) {
					consumeAll(b, engine, fmt.Sprint("group-", n), size)
					events += size
				}
				b.ReportMetric(float64((processorTime()-cpu).Nanoseconds())/float64(events)/1e3, "µs-cpu/event")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events)/1e3, "µs/event")
			})
		}
	}
}

func consumeAll(b *testing.B, engine *sqlitebus.Bus, group string, size int) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got, done := make(chan struct{}, 64), make(chan error, 1)
	go func() {
		done <- engine.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: group, FromBegin: true},
			func(context.Context, bus.Delivery) error { got <- struct{}{}; return nil })
	}()
	for range size {
		select {
		case <-got:
		case err := <-done:
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
