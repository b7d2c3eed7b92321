package sqlitebus_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
)

// A tail has no gap and no duplicates when it switches from its queue to the log and
// back while more events are published. This holds for any queue length and start.
func TestTailRejoinsWithoutGap(t *testing.T) {
	checks := "15"
	if bustest.Long() {
		checks = "2000"
	}
	flag.Set("rapid.checks", checks)
	rapid.Check(t, func(rt *rapid.T) {
		queue := rapid.IntRange(1, 6).Draw(rt, "queue")
		live := rapid.Bool().Draw(rt, "live")
		before := rapid.IntRange(0, 20).Draw(rt, "before")
		batches := rapid.SliceOfN(rapid.IntRange(1, 12), 10, 40).Draw(rt, "batches")
		lane := rapid.SampledFrom([]string{"", "x", "y"}).Draw(rt, "lane")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 10).Draw(rt, "pauses")

		database, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations, Synchronous: "OFF"}))
		if err != nil {
			rt.Fatal(err)
		}
		defer database.Close()
		b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1, TailQueue: queue})
		if err != nil {
			rt.Fatal(err)
		}
		defer b.Close()

		var want []string
		var publishing sync.WaitGroup
		send := func(prefix string, n int) {
			if err := b.Publish(context.Background(), bustest.Events(bustest.Topic, prefix, n, "x", "y", "x")...); err != nil {
				t.Error(err)
			}
		}
		expect := func(prefix string, n int) {
			for _, e := range bustest.Events(bustest.Topic, prefix, n, "x", "y", "x") {
				if lane == "" || e.Lane == lane {
					want = append(want, e.ID)
				}
			}
		}
		if before > 0 {
			send("before-", before)
			expect("before-", before)
		}
		for i, n := range batches {
			expect(fmt.Sprintf("b%d-", i), n)
		}
		// The last event is in the lane that the tail reads.
		last := bustest.Event(bustest.Topic, "last", lane)
		want = append(want, last.ID)
		// With live, all events are published while the tail is live; otherwise some are
		// published while it catches up.
		begin := make(chan struct{})
		if !live {
			close(begin)
		}
		ready := sync.OnceFunc(func() {
			if live {
				close(begin)
			}
		})
		publishing.Go(func() {
			<-begin
			for i, n := range batches {
				send(fmt.Sprintf("b%d-", i), n)
				time.Sleep(time.Duration(5*pauses[i%len(pauses)]) * time.Microsecond)
			}
			if err := b.Publish(context.Background(), last); err != nil {
				t.Error(err)
			}
		})

		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var got []string
		err = b.Tail(ctx, bus.Tail{Topic: bustest.Topic, Lane: lane, Ready: ready}, func(d bus.Delivery) error {
			// The reader pauses sometimes, so that its queue overflows.
			time.Sleep(time.Duration(pauses[len(got)%len(pauses)]) * time.Microsecond)
			if got = append(got, d.ID); d.ID == last.ID {
				cancel()
			}
			return nil
		})
		ready()
		publishing.Wait()
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("tail (-want +got):\n%s", diff)
		}
	})
}
