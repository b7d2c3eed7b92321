package redisbus_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
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
	return client.Do(context.Background(), client.B().Xadd().Key(bareKey(e.Topic)).Id("*").FieldValue().
		FieldValue("i", e.ID).FieldValue("e", head+"\n1700000000000\nca3d163b\n"+string(e.Data)).Build()).Error()
}

func bareKey(topic event.Topic) string { return "bare:" + string(topic) }

// bareTail reads a stream as it grows and tells of each entry.
func bareTail(b *testing.B, server *redistest.Server, topic event.Topic) <-chan struct{} {
	client := bareClient(b, server)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan struct{}, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := "0"; ; {
			reply, err := client.Do(ctx, client.B().Xread().Block(0).Streams().Key(bareKey(topic)).Id(last).Build()).AsXRead()
			if err != nil {
				return
			}
			for _, entry := range reply[bareKey(topic)] {
				last = entry.ID
				got <- struct{}{}
			}
		}
	})
	b.Cleanup(func() { cancel(); reading.Wait() })
	return got
}

func engine(b *testing.B, server *redistest.Server) *redisbus.Bus {
	_, bus := openBus(b, b.TempDir(), db.Options{}, redisbus.Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1}})
	return bus
}

// BenchmarkPublish is P1: publishing beside a bare client that does the same
// XADDs, in the same run, to one stream or to as many as there are publishers, as the
// program has them. "handled" is what a group handles: in the database first, then in
// Redis.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		for _, outputs := range slices.Compact([]int{1, publishers}) {
			output := func(i int) event.Topic { return event.OutputTopic(fmt.Sprint("web:s:", i%outputs)) }
			b.Run(fmt.Sprintf("bare/outputs=%d/%d", outputs, publishers), func(b *testing.B) {
				client := bareClient(b, redistest.Start(b, redistest.Options{}))
				bustest.InParallel(b, publishers, func(i int) error {
					return bareAppend(client, bustest.Event(output(i), fmt.Sprint("event-", i), "lane"))
				})
			})
			b.Run(fmt.Sprintf("bus/outputs=%d/%d", outputs, publishers), func(b *testing.B) {
				bus := engine(b, redistest.Start(b, redistest.Options{}))
				bustest.InParallel(b, publishers, func(i int) error {
					return bus.Publish(context.Background(), bustest.Event(output(i), fmt.Sprint("event-", i), "lane"))
				})
			})
		}
		b.Run(fmt.Sprintf("bus/handled/%d", publishers), func(b *testing.B) {
			bus := engine(b, redistest.Start(b, redistest.Options{}))
			if err := bus.Declare(context.Background(), group); err != nil {
				b.Fatal(err)
			}
			bustest.InParallel(b, publishers, func(i int) error {
				return bus.Publish(context.Background(), bustest.Event(bustest.Topic, fmt.Sprint("event-", i), "lane"))
			})
		})
	}
}

// BenchmarkTailLatency is the first part of P3: one event in flight, from
// publish to the tail's handler, beside a bare client that adds an entry, and
// one whose blocked XREAD gets it.
func BenchmarkTailLatency(b *testing.B) {
	for _, tail := range []bool{false, true} {
		b.Run(fmt.Sprintf("bare/tail=%v", tail), func(b *testing.B) {
			server := redistest.Start(b, redistest.Options{})
			client := bareClient(b, server)
			var got <-chan struct{}
			if tail {
				got = bareTail(b, server, plain)
			}
			for i := 0; b.Loop(); i++ {
				if err := bareAppend(client, bustest.Event(plain, fmt.Sprint("event-", i), "l")); err != nil {
					b.Fatal(err)
				}
				if tail {
					<-got
				}
			}
		})
	}
	b.Run("publish", func(b *testing.B) {
		engine := engine(b, redistest.Start(b, redistest.Options{}))
		for i := range b.N {
			if err := engine.Publish(context.Background(), bustest.Event(plain, fmt.Sprint("event-", i), "l")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tail", func(b *testing.B) { bustest.TailLatency(b, engine(b, redistest.Start(b, redistest.Options{}))) })
}

// BenchmarkTails is the second part of P3.
func BenchmarkTails(b *testing.B) {
	bustest.Tails(b, func(b *testing.B) bus.Bus { return engine(b, redistest.Start(b, redistest.Options{})) })
}
