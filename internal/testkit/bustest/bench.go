package bustest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// InParallel runs do b.N times, spread over the workers, and reports the rate per second.
func InParallel(b *testing.B, workers int, do func(i int) error) {
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

// TailLatency measures one event in flight, from publish to the tail's handler.
func TailLatency(b *testing.B, engine bus.Bus) {
	got := make(chan struct{}, 1)
	startTail(b, engine, benchTopic(0), func() { got <- struct{}{} })
	b.ResetTimer()
	for i := range b.N {
		if err := engine.Publish(context.Background(), Event(benchTopic(0), fmt.Sprint("event-", i), "l")); err != nil {
			b.Fatal(err)
		}
		<-got
	}
}

// Tails publishes 100 topics with 200 events each at once while 100, 1,000 and
// 5,000 tails are live, the others idle.
func Tails(b *testing.B, open func(b *testing.B) bus.Bus) {
	for _, live := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(live), func(b *testing.B) {
			engine := open(b)
			var received atomic.Int64
			for i := range live {
				startTail(b, engine, benchTopic(i), func() { received.Add(1) })
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
							if err := engine.Publish(context.Background(), Event(benchTopic(i), fmt.Sprint(n, "-", k), "l")); err != nil {
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

// benchTopic returns an output topic, because the program tails hundreds of outputs.
func benchTopic(i int) event.Topic { return event.OutputTopic(fmt.Sprint("web:s:", i)) }

func startTail(b *testing.B, engine bus.Bus, topic event.Topic, each func()) {
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
