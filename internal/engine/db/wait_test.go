package db_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// A caller whose time ends while another transaction holds the writer hears that the database is slow; one
// that gives up hears just that.
func TestAWriteThatWaitsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: tables})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		held, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- d.Update(t.Context(), func(*db.Tx) error { close(held); <-release; return nil })
		}()
		<-held
		nothing := func(*db.Tx) error { return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := d.Update(ctx, nothing); fault.ToWire(err).Code != "database_slow" || !db.IsOutage(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a minute: %v, want database_slow", err)
		}
		if err := d.Update(ctx, nothing); !errors.Is(err, context.DeadlineExceeded) || db.IsOutage(err) {
			t.Errorf("a call that is too late already: %v, and it has not waited for the database", err)
		}
		for range 20 { // a reader is free, and either may be first
			if err := d.Read(ctx, func(db.Queryer) error { return nil }); !errors.Is(err, context.DeadlineExceeded) || db.IsOutage(err) {
				t.Errorf("a read that is too late already: %v", err)
				break
			}
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if err := d.Update(gone, nothing); !errors.Is(err, context.Canceled) || db.IsOutage(err) {
			t.Errorf("a caller that left: %v", err)
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
