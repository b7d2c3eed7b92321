package sqlitebus_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
)

// BenchmarkPublish is P2: synced publishing beside a bare database/sql loop
// with group commit on the same table, in the same run.
func BenchmarkPublish(b *testing.B) {
	for _, publishers := range []int{1, 64} {
		b.Run(fmt.Sprintf("bare/%d", publishers), func(b *testing.B) { bustest.InParallel(b, publishers, bareLoop(b)) })
		b.Run(fmt.Sprintf("bus/%d", publishers), func(b *testing.B) {
			_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
			bustest.InParallel(b, publishers, func(i int) error {
				return engine.Publish(context.Background(), bustest.Event(bustest.Topic, fmt.Sprint("event-", i), "lane"))
			})
		})
	}
}

// bareLoop is the minimal implementation of synced inserts with group commit: one
// goroutine, a prepared insert into the same table, and one commit for all waiting events.
func bareLoop(b *testing.B) func(i int) error {
	pool, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "bare.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		b.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	for _, m := range sqlitebus.Migrations {
		if _, err := pool.Exec(m.SQL); err != nil {
			b.Fatal(err)
		}
	}
	type write struct {
		i    int
		done chan error
	}
	queue := make(chan write, 1024)
	var running sync.WaitGroup
	running.Go(func() {
		insert, err := pool.Prepare(`INSERT INTO bus_log (pos, topic, id, type, ts, key, lane, headers, data, at, sum)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		if err != nil {
			b.Error(err)
			return
		}
		defer insert.Close()
		for w := range queue {
			runtime.Gosched()
			group := []write{w}
			for len(queue) > 0 && len(group) < 256 {
				group = append(group, <-queue)
			}
			tx, err := pool.Begin()
			for _, w := range group {
				if err == nil {
					e := bustest.Event(bustest.Topic, fmt.Sprint("event-", w.i), "lane")
					_, err = tx.Stmt(insert).Exec(w.i, 1, e.ID, string(e.Type), e.TS, e.Key, e.Lane, []byte(`{"n":"x"}`), []byte(e.Data), e.TS, 7)
				}
			}
			if err == nil {
				err = tx.Commit()
			}
			for _, w := range group {
				w.done <- err
			}
		}
	})
	b.Cleanup(func() { close(queue); running.Wait(); pool.Close() })
	return func(i int) error {
		w := write{i, make(chan error, 1)}
		queue <- w
		return <-w.done
	}
}

// BenchmarkTailLatency is the first part of P3: one event in flight, from
// publish to the tail's handler.
func BenchmarkTailLatency(b *testing.B) {
	_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	bustest.TailLatency(b, engine)
}

// BenchmarkGroupLatency measures the latency from publish to a group's empty handler.
func BenchmarkGroupLatency(b *testing.B) {
	_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(context.Background())
	got, done := make(chan struct{}, 1), make(chan error, 1)
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	if err := engine.Declare(ctx, s); err != nil {
		b.Fatal(err)
	}
	go func() {
		done <- engine.Subscribe(ctx, s, func(context.Context, bus.Delivery) error { got <- struct{}{}; return nil })
	}()
	b.ResetTimer()
	for i := range b.N {
		if err := engine.Publish(ctx, bustest.Event(bustest.Topic, fmt.Sprint("event-", i), "l")); err != nil {
			b.Fatal(err)
		}
		<-got
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTails is the second part of P3.
func BenchmarkTails(b *testing.B) {
	bustest.Tails(b, func(b *testing.B) bus.Bus {
		_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
		return engine
	})
}
