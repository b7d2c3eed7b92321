package redisbus_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/event"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// bareClient is the library as it comes, but for its cache.
func bareClient(b *testing.B, server *redistest.Server) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client
}

// bareAppend adds the same fields to a stream that the engine adds.
func bareAppend(client rueidis.Client, e event.Event) error {
	head := `{"type":"` + string(e.Type) + `","ts":` + strconv.FormatInt(e.TS, 10) + `,"key":"` + e.Key + `","lane":"` + e.Lane + `","headers":{"n":"` + e.ID + `"}}`
	return client.Do(context.Background(), client.B().Xadd().Key("bare:"+string(e.Topic)).Id("*").FieldValue().
		FieldValue("i", e.ID).FieldValue("a", "1700000000000").FieldValue("h", head).FieldValue("d", rueidis.BinaryString(e.Data)).Build()).Error()
}

func engine(b *testing.B, server *redistest.Server) *redisbus.Bus {
	_, bus := openBus(b, b.TempDir(), db.Options{}, redisbus.Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1}})
	return bus
}

func inParallel(b *testing.B, workers int, do func(i int) error) {
	var next atomic.Int64
	var done sync.WaitGroup
	b.ResetTimer()
	for range workers {
		done.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := do(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkPublish is P1: publishing beside a bare client that does the same
// XADDs, in the same run. "handled" is what a group handles: in the database
// first, then in Redis.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		b.Run(fmt.Sprintf("bare/%d", publishers), func(b *testing.B) {
			client := bareClient(b, redistest.Start(b, redistest.Options{}))
			inParallel(b, publishers, func(i int) error {
				return bareAppend(client, bustest.Event(plain, fmt.Sprint("event-", i), "lane"))
			})
		})
		for _, handled := range []bool{false, true} {
			b.Run(fmt.Sprintf("bus/handled=%v/%d", handled, publishers), func(b *testing.B) {
				bus := engine(b, redistest.Start(b, redistest.Options{}))
				topic := plain
				if handled {
					topic = bustest.Topic
					if err := bus.Declare(context.Background(), group); err != nil {
						b.Fatal(err)
					}
				}
				inParallel(b, publishers, func(i int) error {
					return bus.Publish(context.Background(), bustest.Event(topic, fmt.Sprint("event-", i), "lane"))
				})
			})
		}
	}
}

// BenchmarkTailLatency is the first part of P3: one event in flight, from
// publish to the tail's handler, beside a bare XADD.
func BenchmarkTailLatency(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		client := bareClient(b, redistest.Start(b, redistest.Options{}))
		for i := range b.N {
			if err := bareAppend(client, bustest.Event(plain, fmt.Sprint("event-", i), "l")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("publish", func(b *testing.B) {
		engine := engine(b, redistest.Start(b, redistest.Options{}))
		for i := range b.N {
			if err := engine.Publish(context.Background(), bustest.Event(plain, fmt.Sprint("event-", i), "l")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tail", func(b *testing.B) {
		engine := engine(b, redistest.Start(b, redistest.Options{}))
		got := make(chan struct{}, 1)
		startTail(b, engine, plain, func() { got <- struct{}{} })
		b.ResetTimer()
		for i := range b.N {
			if err := engine.Publish(context.Background(), bustest.Event(plain, fmt.Sprint("event-", i), "l")); err != nil {
				b.Fatal(err)
			}
			<-got
		}
	})
}

// BenchmarkTails is the second part of P3: 100 topics with 200 events each are
// published at once while 100, 1,000 and 5,000 tails are live, the others idle.
func BenchmarkTails(b *testing.B) {
	for _, live := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			engine := engine(b, redistest.Start(b, redistest.Options{}))
			var received atomic.Int64
			for i := range live {
				startTail(b, engine, topicOf(i), func() { received.Add(1) })
			}
			const topics, each = 100, 200
			var elapsed time.Duration
			for n := range b.N {
				want := received.Load() + topics*each
				start := time.Now()
				var publishing sync.WaitGroup
				for i := range topics {
					publishing.Go(func() {
						for k := range each {
							if err := engine.Publish(context.Background(), bustest.Event(topicOf(i), fmt.Sprint(n, "-", k), "l")); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				publishing.Wait()
				for received.Load() < want {
					runtime.Gosched()
				}
				elapsed += time.Since(start)
			}
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			b.ReportMetric(float64(b.N*topics*each)/elapsed.Seconds(), "events/s")
			b.ReportMetric(float64(mem.HeapInuse+mem.StackInuse)/(1<<20), "MB")
		})
	}
}

func startTail(b *testing.B, engine *redisbus.Bus, topic event.Topic, each func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- engine.Tail(ctx, bus.Tail{Topic: topic, FromNow: true, Ready: func() { close(ready) }},
			func(bus.Delivery) error { each(); return nil })
	}()
	select {
	case <-ready:
	case err := <-done:
		b.Fatal(err)
	}
	b.Cleanup(func() { cancel(); <-done })
}
