package delivery_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// A retry that is due in seconds must not wait until a clock that was set back reaches
// its old time again.
func TestClockSetBackDoesNotDelayRetries(t *testing.T) {
	effort.SkipSlow(t)
	patience, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var off atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	database, err := db.Open(patience, dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(database, sqlitebus.Options{Now: now, TrimEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(patience)
	left, again := make(chan error, 1), make(chan struct{})
	s := bus.Subscription{
		Topic: bustest.Topic, Group: "g", FromBegin: true,
		Backoff: func(int) time.Duration { return 2 * time.Second },
	}
	go func() {
		left <- b.Subscribe(ctx, s, func(_ context.Context, d bus.Delivery) error {
			if d.Attempt == 1 {
				return errors.New("not yet")
			}
			close(again)
			return nil
		})
	}()
	defer func() {
		leave()
		if err := errors.Join(<-left, b.Close(), database.Close()); err != nil {
			t.Error(err)
		}
	}()
	if err := b.Publish(patience, bustest.Event(bustest.Topic, "e", "l")); err != nil {
		t.Fatal(err)
	}
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		err := database.Read(patience, func(q db.Queryer) error {
			return q.QueryRow("SELECT EXISTS (SELECT 1 FROM bus_pending WHERE not_before > 0)").Scan(&waits)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	off.Store(int64(-time.Hour))
	select {
	case <-again:
	case <-patience.Done():
		t.Fatal("it is not tried again")
	}
}
