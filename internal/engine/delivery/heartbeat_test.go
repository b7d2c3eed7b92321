package delivery_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/dbtest"
)

// D6: heartbeats renew the lease of running work, so another engine on the same rows
// does not start it. The control is a holder whose clock is stopped, which never renews
// its lease: its work runs twice. The test uses a synctest bubble, because on a real
// clock a suspended machine would also fail to renew a lease.
func TestHeartbeatsKeepWorkFromRunningTwice(t *testing.T) {
	for _, tt := range []struct {
		name    string
		claimed bool
	}{{"claimed while it was appended", true}, {"taken from the log", false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if runs := runsBeside(t, tt.claimed, true); runs != 1 {
					t.Errorf("%d runs beside a holder that renews its lease, want 1", runs)
				}
				if runs := runsBeside(t, tt.claimed, false); runs != 2 {
					t.Errorf("control: %d runs beside a holder that does not renew its lease, want 2", runs)
				}
			})
		})
	}
}

// runsBeside lets one engine run an event, starts a second engine for the same group,
// and counts the runs of the event while the first still runs. If claimed is set, the
// group has a consumer when the event is published.
func runsBeside(t *testing.T, claimed, beating bool) int {
	t.Helper()
	const lease = 6 * time.Second
	patience, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	database, err := db.Open(patience, dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	began := time.Now()
	clock := time.Now
	if !beating {
		frozen := began.Add(-time.Hour)
		clock = func() time.Time { return frozen }
	}
	serve := func(now func() time.Time, consumer, id string, h bus.Handler) (end func()) {
		b, err := sqlitebus.New(database, sqlitebus.Options{Now: now, TrimEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(patience)
		left := make(chan error, 1)
		s := bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: consumer, Lease: lease, Timeout: time.Hour, Parallel: 1}
		if err := b.Declare(ctx, s); err != nil {
			t.Fatal(err)
		}
		subscribe := func() { left <- b.Subscribe(ctx, s, h) }
		if claimed {
			go subscribe()
			synctest.Wait()
		}
		if err := b.Publish(patience, bustest.Event(bustest.Topic, id, id)); err != nil {
			t.Fatal(err)
		}
		if !claimed {
			go subscribe()
		}
		return func() {
			leave()
			if err := <-left; err != nil {
				t.Error(err)
			}
			b.Close()
		}
	}
	started, release := make(chan struct{}), make(chan struct{})
	endFirst := serve(clock, "first", "long", func(context.Context, bus.Delivery) error {
		close(started)
		<-release
		return nil
	})
	<-started
	for beating && leaseOf(t, database) <= began.Add(lease+time.Second).UnixMilli() {
		if patience.Err() != nil {
			t.Fatal("the lease is not renewed")
		}
		time.Sleep(5 * time.Millisecond)
	}
	ran := make(chan string, 2)
	// One lane at a time: an event that can be taken over runs before the newer event.
	endSecond := serve(time.Now, "second", "mark", func(_ context.Context, d bus.Delivery) error {
		ran <- d.ID
		return nil
	})
	runs := 1
	for id := ""; id != "mark"; {
		select {
		case id = <-ran:
		case <-patience.Done():
			t.Fatal("the second engine does not serve")
		}
		if id == "long" {
			runs++
		}
	}
	endSecond()
	close(release)
	endFirst()
	return runs
}

func leaseOf(t *testing.T, database *db.DB) (until int64) {
	t.Helper()
	err := database.Read(t.Context(), func(q db.Queryer) error {
		return q.QueryRow("SELECT lease_until FROM bus_pending").Scan(&until)
	})
	if err != nil {
		t.Fatal(err)
	}
	return until
}
