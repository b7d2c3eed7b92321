package companion_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"lilac/internal/engine/companion"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// cpu returns the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkPublish compares publishing with and without the mirror, in the same run. The metric
// cpu-ns/event is the CPU time of this process, without Redis's; wait-ns/event is how long the
// mirror needs afterward, per event.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		for _, mirror := range []bool{false, true} {
			b.Run(fmt.Sprintf("mirror=%v/%d", mirror, publishers), func(b *testing.B) {
				var redis *companion.Companion
				database, err := db.Open(b.Context(), db.Options{Dir: b.TempDir(), Migrations: sqlitebus.Migrations})
				if err != nil {
					b.Fatal(err)
				}
				defer database.Close()
				engine, err := sqlitebus.New(database, delivery.Options{TrimEvery: -1, Fed: func(r []*delivery.Record) {
					if redis != nil {
						redis.Fed(r)
					}
				}})
				if err != nil {
					b.Fatal(err)
				}
				defer engine.Close()
				var running sync.WaitGroup
				defer running.Wait()
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				if mirror {
					redis, err = companion.New(companion.Options{URL: redistest.Start(b, redistest.Options{}).URL(), Store: database.StoreID(), Log: engine.Log(), Topics: engine.Topics})
					if err != nil {
						b.Fatal(err)
					}
					running.Go(func() { _ = redis.Run(ctx) })
					until(b, "Redis is reached", func() bool { return redis.Stats().Up })
				}
				before := cpu(b)
				bustest.InParallel(b, publishers, func(i int) error {
					return engine.Publish(context.Background(), bustest.Event(bustest.Topic, fmt.Sprint("event-", i), "lane"))
				})
				b.StopTimer()
				if mirror {
					began := time.Now()
					until(b, "all is mirrored", func() bool { return redis.Stats().Lag == 0 })
					b.ReportMetric(float64(time.Since(began))/float64(b.N), "wait-ns/event")
				}
				b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/event")
			})
		}
	}
}
