package delivery_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Engines(m)) }

func open(t *testing.T) (*db.DB, *sqlitebus.Bus) {
	t.Helper()
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	return database, b
}

func alter(t *testing.T, database *db.DB, change func(tx *db.Tx, table string) error, table string) {
	t.Helper()
	err := database.Update(context.Background(), func(tx *db.Tx) error { return change(tx, table) })
	if err != nil {
		t.Fatal(err)
	}
}

func refuse(what string) func(tx *db.Tx, table string) error {
	return func(tx *db.Tx, table string) error { return dbtest.Refuse(tx, what, table) }
}

// A subscription survives a database that cannot be written for a short time. If the
// database stays unwritable, Subscribe returns an error.
func TestConsumerSurvivesAnUnwritableDatabase(t *testing.T) {
	effort.SkipSlow(t)
	for name, mended := range map[string]bool{"for a moment": true, "for good": false} {
		t.Run(name, func(t *testing.T) {
			database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations}))
			if err != nil {
				t.Fatal(err)
			}
			defer database.Close()
			var said logtest.Log
			b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1, Logger: slog.New(slog.NewTextHandler(&said, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if err := b.Declare(ctx, s); err != nil {
				t.Fatal(err)
			}
			if err := b.Publish(ctx, bustest.Event(bustest.Topic, "e", "l")); err != nil {
				t.Fatal(err)
			}
			alter(t, database, refuse("UPDATE"), "bus_groups")
			handled, done := make(chan struct{}), make(chan error, 1)
			go func() {
				done <- b.Subscribe(ctx, s, func(context.Context, bus.Delivery) error { close(handled); return nil })
			}()
			for deadline := time.Now().Add(time.Minute); !strings.Contains(said.String(), "tried again"); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nothing is tried again")
				}
			}
			if !mended {
				if err := <-done; err == nil {
					t.Error("it ended without an error")
				}
				return
			}
			alter(t, database, dbtest.Allow, "bus_groups")
			select {
			case <-handled:
			case err := <-done:
				t.Fatalf("the consumer ended: %v", err)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A consumer that joins while the dispatcher is giving up must be served by the next
// dispatcher, and not idle until its context ends.
func TestConsumerThatJoinsAGroupThatGivesUpIsServed(t *testing.T) {
	effort.SkipSlow(t)
	database, b := open(t)
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	ctx := context.Background()
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, bustest.Event(bustest.Topic, "e", "l")); err != nil {
		t.Fatal(err)
	}
	alter(t, database, refuse("INSERT"), "bus_pending")
	handled := make(chan string, 1)
	consume := func() (stop context.CancelFunc, done chan error) {
		consuming, stop := context.WithCancel(ctx)
		done = make(chan error, 1)
		go func() {
			done <- b.Subscribe(consuming, s, func(_ context.Context, d bus.Delivery) error {
				handled <- d.ID
				return nil
			})
		}()
		return stop, done
	}
	poll := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("still not so: %s", what)
			}
		}
	}
	leave, left := consume()
	poll("the group cannot write", func() bool { return b.Healthy(ctx) != nil })
	stop, done := consume()
	poll("the second consumer has joined", func() bool { return b.Users(bustest.Topic, "g") == 2 })
	leave()
	if err := <-left; err != nil {
		t.Fatal(err)
	}
	alter(t, database, dbtest.Allow, "bus_pending")
	select {
	case <-handled:
	case <-time.After(time.Minute):
		t.Error("the second consumer was never served")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
