package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/logtest"
)

// An event that waits for a retry but is no longer in the log is lost, whatever its age.
// It must be logged as an error that says so.
func TestEventMissingFromTheLogIsAnError(t *testing.T) {
	effort.SkipSlow(t)
	patience, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	database, err := db.Open(patience, dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	// serve runs a bus until done holds.
	var log logtest.Log
	serve := func(h func(context.Context, bus.Delivery) error, then func(b *sqlitebus.Bus), done func() bool) {
		t.Helper()
		b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(patience)
		left := make(chan error, 1)
		s := bus.Subscription{Topic: bustest.Topic, Group: "g", FromBegin: true, Backoff: func(int) time.Duration { return time.Second }}
		go func() { left <- b.Subscribe(ctx, s, h) }()
		then(b)
		for !done() && patience.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		leave()
		if err := errors.Join(<-left, b.Close(), patience.Err()); err != nil {
			t.Fatal(err)
		}
	}
	serve(func(context.Context, bus.Delivery) error { return errors.New("not yet") }, func(b *sqlitebus.Bus) {
		if err := b.Publish(patience, bustest.Event(bustest.Topic, "e", "l")); err != nil {
			t.Fatal(err)
		}
	}, func() (waits bool) {
		err := database.Read(patience, func(q db.Queryer) error {
			return q.QueryRow("SELECT EXISTS (SELECT 1 FROM bus_pending WHERE not_before > 0)").Scan(&waits)
		})
		return err == nil && waits
	})
	if err := database.Update(patience, func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM bus_log"); return err }); err != nil {
		t.Fatal(err)
	}
	serve(func(context.Context, bus.Delivery) error { t.Error("it is handled"); return nil }, func(*sqlitebus.Bus) {},
		func() bool {
			return strings.Contains(log.String(), `level=ERROR msg="unhandled event is missing from the log"`)
		})
}
