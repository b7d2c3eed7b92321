package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/postgrestest"
)

const testLease = time.Second

func awaitLease(t *testing.T, addr, dir string, waiting func(error)) *db.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := db.AwaitLease(ctx, db.LeaseOptions{URL: postgrestest.URLAt(addr, "one"), Dir: dir, Migrations: tables, Duration: testLease, Waiting: waiting})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func openLeased(t *testing.T, addr, dir string, l *db.Lease) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: tables, URL: postgrestest.URLAt(addr, "one"), Lease: l})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A process that cannot renew its lease gives it up by its own clock before another one takes
// over, and what it still writes is refused. In the control, the fence is removed, and a stale
// write arrives.
func TestALeaseEndsTheWritesOfItsFormerOwner(t *testing.T) {
	for name, fenced := range map[string]bool{"fenced": true, "control: without the fence": false} {
		t.Run(name, func(t *testing.T) {
			s := startPostgres(t)
			proxy, firstDir, secondDir := faultproxy.Start(t, s.Addr()), t.TempDir(), t.TempDir()
			lease := awaitLease(t, proxy.Addr, firstDir, nil)
			// The writer has a connection that works: only the lease is cut off. The lease of the
			// second database object is that of no one, as if the first did not look.
			var first *db.DB
			if fenced {
				first = openLeased(t, s.Addr(), firstDir, lease)
			} else {
				first = openLeased(t, s.Addr(), t.TempDir(), nil)
			}
			if err := put(first, "before"); err != nil {
				t.Fatal(err)
			}
			if !fenced {
				if err := s.Do("ALTER TABLE one.writers DROP CONSTRAINT writers_epoch"); err != nil {
					t.Fatal(err)
				}
			}
			proxy.Refuse()
			waited := false
			second := awaitLease(t, s.Addr(), secondDir, func(error) { waited = true })
			if !waited {
				t.Error("the second process did not wait")
			}
			if code := fault.ToWire(lease.Err()).Code; code != db.CodeLeaseExpired {
				t.Errorf("when the second process takes over, the first has noticed: %v", lease.Err())
			}
			d := openLeased(t, s.Addr(), secondDir, second)
			if err := put(first, "stale"); (err == nil) == fenced {
				t.Errorf("a stale write: %v", err)
			}
			if err := put(d, "after"); err != nil {
				t.Error(err)
			}
			want := 2
			if !fenced {
				want = 3
			}
			if n := count(t, d); n != want {
				t.Errorf("%d rows, want %d", n, want)
			}
			for _, err := range []error{first.Close(), d.Close(), second.Release()} {
				if err != nil {
					t.Error(err)
				}
			}
			_ = lease.Release() // it is lost
		})
	}
}

// A process that stops within a transaction keeps its locks until PostgreSQL ends the transaction, which
// waits too long for its next statement. In the control, the transaction may wait, and the next owner of
// the lease waits until the process goes on.
func TestTheTransactionOfAStoppedProcessHoldsNobodyUp(t *testing.T) {
	for name, limited := range map[string]bool{"limited": true, "control: without the time limit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startPostgres(t)
			proxy, firstDir, secondDir := faultproxy.Start(t, s.Addr()), t.TempDir(), t.TempDir()
			lease := awaitLease(t, proxy.Addr, firstDir, nil)
			first := openLeased(t, s.Addr(), firstDir, lease)
			if err := put(first, "a row that both change"); err != nil {
				t.Fatal(err)
			}
			change := func(tx *db.Tx) error {
				_, err := tx.Exec("UPDATE t SET id = id")
				return err
			}
			stopped, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- first.Update(context.Background(), func(tx *db.Tx) error {
					var err error
					if !limited {
						_, err = tx.Exec("SET LOCAL idle_in_transaction_session_timeout = 0")
					}
					var n int
					err = errors.Join(err, change(tx), tx.QueryRow("SELECT count(*) FROM t").Scan(&n)) // the read sends the others
					close(stopped)
					<-goOn
					return err
				})
			}()
			<-stopped
			proxy.Refuse()
			second := awaitLease(t, s.Addr(), secondDir, nil)
			d := openLeased(t, s.Addr(), secondDir, second)
			changed := make(chan error, 1)
			go func() { changed <- d.Update(context.Background(), change) }()
			waited := false
			select {
			case err := <-changed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(15 * time.Second): // three times as long as a transaction may wait
				waited = true
			}
			if waited == limited {
				t.Errorf("the next owner waited for a process that had stopped: %v", waited)
			}
			close(goOn)
			if err := <-ended; err == nil {
				t.Error("the process went on, and its transaction was accepted")
			}
			if waited {
				if err := <-changed; err != nil {
					t.Error(err)
				}
			}
			for _, err := range []error{first.Close(), d.Close(), second.Release()} {
				if err != nil {
					t.Error(err)
				}
			}
			_ = lease.Release() // it is lost
		})
	}
}

// A process that resumes after another one has taken over finds that out by the fence alone, even
// before it notices the loss of its lease. A lease that is taken over cannot begin an epoch.
func TestAnEpochNeedsTheLease(t *testing.T) {
	s := startPostgres(t)
	dir := t.TempDir()
	lease := awaitLease(t, s.Addr(), dir, nil)
	if err := s.Do("UPDATE one.leases SET holder = 'another', locked = ''"); err != nil {
		t.Fatal(err)
	}
	_, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: tables, URL: s.URL("one"), Lease: lease})
	if fault.ToWire(err).Code != db.CodeTakenOver {
		t.Errorf("open without the lease: %v", err)
	}
	select {
	case <-lease.Lost():
	case <-time.After(time.Minute):
		t.Error("the loss of the lease was not noticed")
	}
	_ = lease.Release() // it is lost
}

// A released lease is taken at once, and so is the lease of a process that has ended and had
// locked the same directory. With another directory, the process waits for the end of the lease.
func TestWhoTakesALeaseOverAtOnce(t *testing.T) {
	s := startPostgres(t)
	dir := t.TempDir()
	waits := 0
	take := func(dir string) *db.Lease { return awaitLease(t, s.Addr(), dir, func(error) { waits++ }) }
	for i := range 3 {
		if err := take(dir).Release(); err != nil {
			t.Fatal(i, err)
		}
	}
	l := take(dir)
	rows, err := s.Ask("SELECT holder, locked FROM one.leases")
	if err != nil || len(rows) != 1 || rows[0][1] == "" {
		t.Fatalf("%v, %v", rows, err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	died := func() { // as if the process had not released its lease
		t.Helper()
		err := s.Do(fmt.Sprintf("UPDATE one.leases SET holder = '%s', locked = '%s', until = now() + interval '1 second'", rows[0][0], rows[0][1]))
		if err != nil {
			t.Fatal(err)
		}
	}
	died()
	l = take(dir)
	if waits != 0 {
		t.Errorf("a process waited %d times for leases of ended processes", waits)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	died()
	l = take(t.TempDir())
	if waits != 1 {
		t.Errorf("control: a process with another directory waited %d times", waits)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// A database that is read beside its owner does not end the ownership.
func TestADatabaseIsReadBesideItsOwner(t *testing.T) {
	s := startPostgres(t)
	owner, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := onServer(t, s.Addr(), "one", func(o *db.Options) { o.ReadOnly = true })
	if err != nil {
		t.Fatal(err)
	}
	if err := put(owner, "a"); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if n := count(t, beside); n != 1 || beside.StoreID() != owner.StoreID() {
		t.Errorf("read %d rows of %s", n, beside.StoreID())
	}
	if err := put(beside, "b"); err == nil {
		t.Error("a write was accepted")
	}
}

// A lease is renewed several times per second while that fails, and the log says so once for each reason.
func TestALeaseThatCannotBeRenewedIsLoggedOnce(t *testing.T) {
	s := startPostgres(t)
	link := faultproxy.Start(t, s.Addr())
	var log bytes.Buffer
	l, err := db.AwaitLease(t.Context(), db.LeaseOptions{
		URL: postgrestest.URLAt(link.Addr, "one"), Dir: t.TempDir(), Migrations: tables, Duration: testLease, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	link.Refuse()
	link.Cut()
	select {
	case <-l.Lost():
	case <-time.After(time.Minute):
		t.Error("the lease is not lost")
	}
	if err := l.Release(); err != nil { // waits for the goroutine that writes the log
		t.Error(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "cannot renew") {
			_, reason, _ := strings.Cut(line, "error=")
			sentence, _, _ := strings.Cut(reason, " (")
			counts[sentence]++
		}
	}
	if len(counts) == 0 {
		t.Error("the log does not say why")
	}
	for reason, n := range counts {
		if n > 1 {
			t.Errorf("%d lines: %s", n, reason)
		}
	}
}
