package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/logtest"
)

// openLogged is like open, with the log.
func openLogged(t *testing.T) (*db.DB, *sqlitebus.Bus, *logtest.Log) {
	t.Helper()
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	var log logtest.Log
	b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), database.Close()); err != nil {
			t.Error(err)
		}
	})
	return database, b, &log
}

// People read the reason of a dead letter; the log keeps the whole error.
func TestTheReasonOfADeadLetterIsForPeople(t *testing.T) {
	_, b, log := openLogged(t)
	ctx, stop := context.WithCancel(t.Context())
	var shape struct{ Content string }
	cause := json.Unmarshal([]byte(`{"Content": 5}`), &shape)
	done := make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: "g", FromBegin: true}, func(context.Context, bus.Delivery) error {
			return bus.Permanent(fmt.Errorf("carry out %T: %w", shape, fault.Wrap(fault.Invalid, cause, "The event has another shape")))
		})
	}()
	if err := b.Publish(ctx, bustest.Event(bustest.Topic, "e", "l")); err != nil {
		t.Fatal(err)
	}
	var letters []bus.DeadLetter
	e2e.Eventually(t, time.Minute, "there is a dead letter", func() bool {
		letters, _ = b.DeadLetters(ctx, "", 10)
		return len(letters) == 1
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := "The event has another shape: Content must be of type string, not number"; letters[0].Reason != want {
		t.Errorf("the reason is %q, want %q", letters[0].Reason, want)
	}
	if !strings.Contains(log.String(), "json: cannot unmarshal") {
		t.Errorf("the log lacks the error:\n%s", log.String())
	}
}

// A database that cannot be written is logged once, and not at each of the retries, which are half a
// second apart.
func TestAnUnwritableDatabaseIsLoggedOnce(t *testing.T) {
	effort.SkipSlow(t)
	database, b, log := openLogged(t)
	ctx, stop := context.WithCancel(t.Context())
	lines := func() int { return strings.Count(log.String(), "cannot write deliveries") }
	alter(t, database, refuse("INSERT"), "bus_pending")
	// Before there is a group: a publisher writes the deliveries of the groups that it knows.
	if err := b.Publish(ctx, bustest.Event(bustest.Topic, "last", "l")); err != nil {
		t.Fatal(err)
	}
	handled, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: "g", FromBegin: true}, func(_ context.Context, d bus.Delivery) error {
			if d.ID == "last" {
				close(handled)
			}
			return nil
		})
	}()
	e2e.Eventually(t, time.Minute, "it is logged", func() bool { return lines() > 0 })
	e2e.Poll(2*time.Second, func() bool { return lines() > 1 })
	alter(t, database, dbtest.Allow, "bus_pending")
	<-handled
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := lines(); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, log.String())
	}
}
