package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// shelf is a log in memory that counts how it is read.
type shelf struct {
	records []*delivery.Record // the position of the first is 1
	read    atomic.Int64       // number of records read in chunks
	one     atomic.Int64       // number of records read one at a time
}

func newShelf(events, lanes, bytes int) *shelf {
	s := &shelf{}
	for i := range events {
		e := bustest.Event(bustest.Topic, fmt.Sprint("event-", i), fmt.Sprint("lane-", i%lanes))
		e.Data = slices.Concat([]byte(`"`), slices.Repeat([]byte("x"), bytes), []byte(`"`))
		s.records = append(s.records, &delivery.Record{Seq: int64(i + 1), Event: e})
	}
	return s
}

func (s *shelf) Topic(context.Context, event.Topic) (delivery.Topic, error) {
	return delivery.Topic{Exists: true, Last: int64(len(s.records))}, nil
}

func (s *shelf) Read(ctx context.Context, topic event.Topic, after int64, _ string, limit int) (delivery.Topic, []*delivery.Record, error) {
	known, err := s.Topic(ctx, topic)
	rest := s.records[after:]
	rest = rest[:min(limit, len(rest))]
	s.read.Add(int64(len(rest)))
	return known, slices.Clone(rest), err
}

func (s *shelf) One(_ context.Context, _ event.Topic, seq int64) (*delivery.Record, error) {
	s.one.Add(1)
	return s.records[seq-1], nil
}

func (s *shelf) Appended(context.Context, event.Topic, int64) (int64, error) { return 0, nil }
func (s *shelf) Distance(from, to int64) int64                               { return max(0, to-from) }

func (s *shelf) Position(seq int64) bus.Position { return bus.Position(strconv.FormatInt(seq, 10)) }

func (s *shelf) Seq(p bus.Position) (int64, error) { return strconv.ParseInt(string(p), 10, 64) }

// deliver creates an engine on a log.
func deliver(t *testing.T, log delivery.Log) *delivery.Engine {
	t.Helper()
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: delivery.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := delivery.New(database, log, delivery.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		engine.Stop()
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// The cost per event must not grow with the backlog: each event is read once, in a
// chunk. The control is a lane of events that are too large to keep a whole window in
// memory.
func TestBacklogIsReadOnce(t *testing.T) {
	effort.SkipSlow(t)
	for _, row := range []struct {
		name                 string
		events, lanes, bytes int
		again                bool
	}{
		{"many lanes", 10_000, 250, 100, false},
		{"one lane", 6000, 1, 100, false},
		{"control: one lane of large events", 1000, 1, 16 << 10, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			log := newShelf(row.events, row.lanes, row.bytes)
			engine := deliver(t, log)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			handled := make([]atomic.Int64, row.lanes)
			var all atomic.Int64
			err := engine.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: "g", FromBegin: true}, func(_ context.Context, d bus.Delivery) error {
				i, err := strconv.ParseInt(string(d.Position), 10, 64)
				if err != nil {
					return err
				}
				i-- // the first is at 1
				if n := handled[i%int64(row.lanes)].Add(1); n != i/int64(row.lanes)+1 {
					t.Errorf("%s is number %d of its lane", d.ID, n)
				}
				if all.Add(1) == int64(row.events) {
					cancel()
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := all.Load(); n != int64(row.events) {
				t.Fatalf("%d of %d events were handled", n, row.events)
			}
			if n := log.read.Load(); n != int64(row.events) {
				t.Errorf("%d events were read in a row, want %d", n, row.events)
			}
			if n := log.one.Load(); n > 0 != row.again {
				t.Errorf("%d events were read again, one at a time", n)
			}
		})
	}
}

// An event stays in the log, where it costs nothing, until a handler is free. The
// control is a busy lane: other handlers are free for events after those of the lane, so
// the group admits the lane's events too.
func TestBacklogStaysInTheLog(t *testing.T) {
	const events, parallel = 1000, 4
	for _, row := range []struct {
		name       string
		lanes      int
		begin, max int64
	}{{"many lanes", 250, parallel, parallel}, {"control: one lane", 1, 1, events}} {
		t.Run(row.name, func(t *testing.T) {
			engine := deliver(t, newShelf(events, row.lanes, 100))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			begun, done := make(chan struct{}, parallel), make(chan error, 1)
			go func() {
				done <- engine.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: "g", FromBegin: true, Parallel: parallel},
					func(ctx context.Context, _ bus.Delivery) error {
						begun <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					})
			}()
			for range row.begin {
				<-begun
			}
			for {
				groups, err := engine.Groups(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(groups) != 1 || groups[0].Pending > row.max || groups[0].Pending+groups[0].Backlog != events {
					t.Fatalf("the groups are %+v", groups)
				}
				if groups[0].Pending == row.max {
					break
				}
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
	}
}
