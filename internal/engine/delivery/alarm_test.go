package delivery_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/logtest"
)

// A group without a consumer is logged once. The control is a group with a consumer,
// which is not logged.
func TestASilentGroupRaisesAnAlarm(t *testing.T) {
	var skew atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations, Now: now}))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	var log logtest.Log
	b, err := sqlitebus.New(database, sqlitebus.Options{Now: now, TrimEvery: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, group := range []string{"retired", "served"} {
		if err := b.Declare(ctx, bus.Subscription{Topic: bustest.Topic, Group: group}); err != nil {
			t.Fatal(err)
		}
	}
	handled, done := make(chan struct{}, 2), make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, bus.Subscription{Topic: bustest.Topic, Group: "served"}, func(context.Context, bus.Delivery) error {
			handled <- struct{}{}
			return nil
		})
	}()
	if err := b.Publish(ctx, bustest.Events(bustest.Topic, "e", 2)...); err != nil {
		t.Fatal(err)
	}
	<-handled
	<-handled
	groups, err := b.Groups(ctx)
	if err != nil || len(groups) != 2 || !groups[0].Silent() || groups[1].Silent() {
		t.Errorf("groups %+v, %v; want the retired one to be silent", groups, err)
	}
	if n := strings.Count(log.String(), "has no consumer"); n > 0 {
		t.Error("an alarm before its consumer had time to come")
	}
	skew.Add(int64(2 * time.Hour))
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "has no consumer"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no alarm")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "group=retired"); n != 1 {
		t.Errorf("%d alarms for the retired group, want 1", n)
	}
	if strings.Contains(log.String(), "group=served") {
		t.Error("an alarm for a group that was served")
	}
}
