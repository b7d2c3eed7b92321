package redisbus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/redistest"
)

// A batch that arrives before its predecessor is refused and sent again. Whichever batch
// is faster, each publisher's events are stored once and in order.
func TestBatchThatOvertakesAnotherKeepsTheOrder(t *testing.T) {
	const publishers, each = 16, 100
	topics := []event.Topic{"out.req.web:s:1", "out.req.web:s:2", "test.aged"}
	server := redistest.Start(t, redistest.Options{})
	database, err := db.Open(t.Context(), db.Options{Dir: filepath.Join(t.TempDir(), "data"), Migrations: Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	b, err := Open(t.Context(), database, Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1}, late: func() {
		if rand.IntN(3) == 0 { // the next one goes first, if there is one by then
			time.Sleep(rand.N(3 * time.Millisecond))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	refusals := func() (n int) {
		stats := server.Do("INFO", "errorstats").(string)
		for line := range strings.Lines(stats) {
			if _, err := fmt.Sscanf(line, "errorstat_"+refusedLost+":count=%d", &n); err == nil {
				return n
			}
		}
		return 0
	}
	var work sync.WaitGroup
	for p := range publishers {
		work.Go(func() {
			for i := range each {
				e := event.Event{ID: fmt.Sprintf("%d-%d", p, i), Topic: topics[i%len(topics)], Type: "test.event", Lane: "l", Data: []byte("{}")}
				if err := b.Publish(context.Background(), e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	if n := refusals(); n == 0 {
		t.Error("control: no batch overtook another")
	}
	total := 0
	for _, topic := range topics {
		last := map[int]int{}
		var after bus.Position
		for {
			got, err := b.Fetch(t.Context(), topic, after, publishers*each)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			for _, d := range got {
				var p, i int
				if _, err := fmt.Sscanf(d.ID, "%d-%d", &p, &i); err != nil {
					t.Fatal(err)
				}
				if before, known := last[p]; known && i <= before {
					t.Fatalf("%s: the event %d of publisher %d came behind %d", topic, i, p, before)
				}
				last[p], after = i, d.Position
				total++
			}
		}
	}
	if total != publishers*each {
		t.Errorf("%d events are there, want %d", total, publishers*each)
	}
	if bad, err := Verify(t.Context(), Options{URL: server.URL()}); err != nil || len(bad) > 0 {
		t.Errorf("verify: %v, %v", bad, err)
	}
}

// When the bus closes, every publisher returns, whether its events are queued or in
// flight.
func TestPublishersFailWhenTheBusCloses(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	database, err := db.Open(t.Context(), db.Options{Dir: filepath.Join(t.TempDir(), "data"), Migrations: Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	for round := range 20 {
		b, err := Open(t.Context(), database, Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1}, late: func() {
			time.Sleep(rand.N(2 * time.Millisecond))
		}})
		if err != nil {
			t.Fatal(err)
		}
		var publishing sync.WaitGroup
		var published atomic.Int64
		for p := range 16 {
			publishing.Go(func() {
				for i := 0; b.ctx.Err() == nil; i++ {
					e := event.Event{ID: fmt.Sprintf("%d-%d-%d", round, p, i), Topic: "out.req.web:s:1", Type: "test.event", Lane: "l", Data: []byte("{}")}
					_ = b.Publish(context.Background(), e) // refused or accepted: it returns
					published.Add(1)
				}
			})
		}
		for published.Load() < 200 {
			time.Sleep(time.Millisecond)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		told := make(chan struct{})
		go func() {
			defer close(told)
			publishing.Wait()
		}()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("round %d: who published when the bus was closed still waits", round)
		}
	}
}
