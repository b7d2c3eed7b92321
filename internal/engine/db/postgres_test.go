package db_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/postgrestest"
)

// onServer opens a database whose connections lead to an address.
func onServer(t testing.TB, addr, schema string, change func(*db.Options)) (*db.DB, error) {
	t.Helper()
	opt := db.Options{Dir: t.TempDir(), Migrations: tables, URL: postgrestest.URLAt(addr, schema)}
	if change != nil {
		change(&opt)
	}
	d, err := db.Open(t.Context(), opt)
	if err == nil {
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return d, err
}

func startPostgres(t testing.TB, settings ...string) *postgrestest.Server {
	t.Helper()
	effort.SkipPostgres(t)
	if dbtest.Postgres() {
		t.Skip("the run on the other engine tests the same")
	}
	s := postgrestest.Start(t, settings...)
	if err := s.Do("CREATE SCHEMA one"); err != nil {
		t.Fatal(err)
	}
	return s
}

func put(d *db.DB, id string) error {
	return d.Update(context.Background(), func(tx *db.Tx) error { return insert(tx, id) })
}

// A connection that is cut during a COMMIT: the caller hears what happened, and nothing is
// done twice. The primary key would reject a second insert.
func TestTheOutcomeOfACommitIsKnownAfterTheConnectionWasCut(t *testing.T) {
	s := startPostgres(t)
	proxy := faultproxy.Start(t, s.Addr())
	d, err := onServer(t, proxy.Addr, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		proxy.Cut() // the statements are prepared again, so that the text below is sent
		proxy.LoseOneAnswerTo("COMMIT")
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			tx.AheadOfNext(func(tx *db.Tx) { _ = tx.QueryRow("SELECT count(*) FROM t").Err() })
			return insert(tx, fmt.Sprint("answer lost ", i))
		})
		if err != nil {
			t.Errorf("the server has committed, and the caller hears: %v", err)
		}
		if !proxy.LostOne() {
			t.Error("control: no answer was lost")
		}
	}
	if n := count(t, d); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
	if bad := d.Healthy(); bad != nil {
		t.Errorf("unhealthy after the connection is back: %v", bad)
	}
}

// A lost connection before the COMMIT repeats the closure; the caller does not notice.
func TestAWriteSurvivesALostConnection(t *testing.T) {
	s := startPostgres(t)
	proxy := faultproxy.Start(t, s.Addr())
	d, err := onServer(t, proxy.Addr, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	err = d.Update(t.Context(), func(tx *db.Tx) error {
		runs++
		var n int
		if err := tx.QueryRow("SELECT count(*) FROM t").Scan(&n); err != nil {
			return err
		}
		if runs == 1 {
			proxy.Cut()
		}
		return insert(tx, "a")
	})
	if n := count(t, d); err != nil || n != 1 || runs != 2 {
		t.Errorf("%v; %d rows after %d runs, want one row after two", err, n, runs)
	}
	proxy.Cut()
	if n := count(t, d); n != 1 {
		t.Errorf("a read on a lost connection: %d rows", n)
	}
}

// After an outage, each reconnection begins an epoch. The process stays the owner of the
// database, even if the answer to the statement that begins the epoch is lost.
func TestTheOwnerStaysTheOwnerAfterAnOutage(t *testing.T) {
	s := startPostgres(t)
	proxy := faultproxy.Start(t, s.Addr())
	d, err := onServer(t, proxy.Addr, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Refuse()
	proxy.Cut()
	if err := d.Update(t.Context(), func(tx *db.Tx) error { return tx.QueryRow("SELECT count(*) FROM t").Scan(new(int)) }); err == nil {
		t.Error("control: a read without a server succeeds")
	}
	proxy.Accept(t)
	if err := put(d, "accepted"); err != nil {
		t.Errorf("the first write after an outage: %v", err)
	}
	for i := range 3 {
		proxy.LoseOneAnswerTo("SET epoch")
		proxy.Cut()
		var err error
		for range 2 { // the caller of the first may hear of the outage
			if err = put(d, fmt.Sprint("after a lost answer ", i)); err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("the writes after a lost answer fail: %v", err)
		}
		if !proxy.LostOne() {
			t.Error("control: no answer was lost")
		}
	}
	if n := count(t, d); n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}

// A process whose database belongs to another one writes nothing more.
func TestAProcessThatWasReplacedWritesNothing(t *testing.T) {
	s := startPostgres(t)
	first, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(first, "first"); err != nil {
		t.Fatal(err)
	}
	second, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"stale", "stale again"} {
		if err := put(first, id); fault.ToWire(err).Code != db.CodeTakenOver {
			t.Errorf("a write of the first process: %v", err)
		}
	}
	if err := first.Probe(t.Context(), 0); fault.ToWire(err).Code != db.CodeTakenOver {
		t.Errorf("the probe of the first process: %v", err)
	}
	if err := put(second, "second"); err != nil {
		t.Error(err)
	}
	if n := count(t, second); n != 2 {
		t.Errorf("%d rows, want those of each process while it was the owner", n)
	}
}

func TestFaultsOfPostgresSayWhatToDo(t *testing.T) {
	s := startPostgres(t)
	d, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	says := func(what string, err error, code, text string) {
		t.Helper()
		if wire := fault.ToWire(err); wire.Code != code || !strings.Contains(wire.Message, text) {
			t.Errorf("%s: %v; want the code %q and %q", what, err, code, text)
		}
	}
	do := func(statements string) {
		t.Helper()
		if err := s.Do(statements); err != nil {
			t.Fatal(err)
		}
	}
	do(`SET search_path = one; CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	err = put(d, "a")
	says("a full disk", err, "", "disk of PostgreSQL is full")
	if !errors.Is(err, syscall.ENOSPC) || !db.IsEngineError(err) {
		t.Errorf("a full disk: %v", err)
	}
	do(`DROP TRIGGER full_disk ON one.t`)
	if err := put(d, "a"); err != nil {
		t.Errorf("after there is space again: %v", err)
	}

	do(`ALTER TABLE one.t RENAME TO gone`)
	says("a table that is gone", put(d, "b"), "database_changed", `relation "t" does not exist`)
	if d.Healthy() == nil {
		t.Error("a database without a table is called healthy")
	}
	do(`ALTER TABLE one.gone RENAME TO t`)

	do(`CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	do(`CREATE SCHEMA two; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA two TO poor; CREATE ROLE few LOGIN CONNECTION LIMIT 0;
		CREATE TABLE two.strange (x int); CREATE SCHEMA three`)
	open := func(from, to string) error {
		d, err := onServer(t, s.Addr(), "three", func(o *db.Options) { o.URL = strings.Replace(o.URL, from, to, 1) })
		if err == nil {
			err = put(d, "a")
		}
		return err
	}
	says("too few rights", open("postgres@", "poor@"), "database_rights", "Grant it")
	says("too few connections", open("postgres@", "few@"), "database_connections", "max_connections")
	says("no such database", open("/postgres?", "/nothing?"), "database_missing", "createdb")
	says("no such user", open("postgres@", "nobody@"), "database_login", "pg_hba.conf")
	says("another encoding", open("/postgres?", "/latin?"), "database_encoding", "UTF8")
	says("another program's tables", open("three", "two"), "foreign_database", "was not changed")
	says("read-only", open("sslmode", "default_transaction_read_only=on&sslmode"), "database_read_only", "primary")
	s.Stop()
	says("a stopped server", put(d, "b"), "database_unreachable", "Check that it runs")
	says("a stopped server, for a write that reads first", d.Update(t.Context(), func(tx *db.Tx) error {
		var n int
		return tx.QueryRow("SELECT count(*) FROM t").Scan(&n)
	}), "database_unreachable", "Check that it runs")
	if d.Healthy() == nil {
		t.Error("a database that cannot be reached is called healthy")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := put(d, "b"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if n := count(t, d); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

// A group commit without reads takes one round trip, and each read takes one more.
func TestRoundTripsOfATransaction(t *testing.T) {
	s := startPostgres(t)
	var trips atomic.Int64
	d, err := onServer(t, s.Addr(), "one", func(o *db.Options) { o.OnRoundTrip = func([]string) { trips.Add(1) } })
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		want int64
		do   func(tx *db.Tx) error
	}{
		"writes": {1, func(tx *db.Tx) error {
			return errors.Join(insert(tx, "a"), insert(tx, "b"), insert(tx, "c"))
		}},
		"a write, a read, a write": {2, func(tx *db.Tx) error {
			var n int
			return errors.Join(insert(tx, "d"), tx.QueryRow("SELECT count(*) FROM t").Scan(&n), insert(tx, "e"))
		}},
		"a write whose result is expected": {1, func(tx *db.Tx) error {
			n, err := tx.ExecExpecting(1, "INSERT INTO t (id) VALUES (?) ON CONFLICT (id) DO NOTHING", "f")
			if n != 1 {
				t.Errorf("%d rows, want 1", n)
			}
			return err
		}},
		"control: a write whose result is needed": {2, func(tx *db.Tx) error {
			res, err := tx.Exec("DELETE FROM t")
			if err == nil {
				_, err = res.RowsAffected()
			}
			return err
		}},
	} {
		before := trips.Load()
		if err := d.Update(t.Context(), c.do); err != nil {
			t.Fatal(err)
		}
		if n := trips.Load() - before; n != c.want {
			t.Errorf("%s: %d round trips, want %d", name, n, c.want)
		}
	}
}

// The reads of the next transaction travel with a commit. One that the server refuses does not
// touch the commit, and refuses itself where it is read.
func TestReadsTravelWithTheCommitBeforeThem(t *testing.T) {
	s := startPostgres(t)
	var trips atomic.Int64
	d, err := onServer(t, s.Addr(), "one", func(o *db.Options) { o.OnRoundTrip = func([]string) { trips.Add(1) } })
	if err != nil {
		t.Fatal(err)
	}
	counted := func(q db.Queryer) (n int, err error) { return n, q.QueryRow("SELECT count(*) FROM t").Scan(&n) }
	refused := func(q db.Queryer) error { return q.QueryRow("SELECT count(*) / 0 FROM t").Err() }
	for i, announced := range []bool{false, true, true, false} { // the first one prepares the statements
		var foresight *db.Foresight
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			if announced {
				read := func(tx *db.Tx) { _, _ = counted(tx) }
				tx.AheadOfNext(read)
				foresight = tx.Foresee(read)
				tx.AheadOfNext(func(tx *db.Tx) { _ = refused(tx) })
			}
			return insert(tx, fmt.Sprint("before ", i))
		})
		if err != nil {
			t.Fatal(err)
		}
		before := trips.Load()
		err = d.Update(t.Context(), func(tx *db.Tx) error {
			if n, err := counted(tx); err != nil || n != 2*i+1 {
				return fmt.Errorf("%d rows (%w), want %d", n, err, 2*i+1)
			}
			return insert(tx, fmt.Sprint("after ", i))
		})
		if err != nil {
			t.Fatal(err)
		}
		inUpdate := trips.Load() - before
		err = foresight.Read(t.Context(), d, func(q db.Queryer) error {
			want := 2*i + 2
			if announced {
				want-- // as it was after the commit
			}
			if n, err := counted(q); err != nil || n != want {
				return fmt.Errorf("%d rows (%w), want %d", n, err, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		inRead := trips.Load() - before - inUpdate
		if want := map[bool][2]int64{false: {2, 1}, true: {1, 0}}[announced]; [2]int64{inUpdate, inRead} != want {
			t.Errorf("round %d, announced %t: %d round trips of the update and %d of the read, want %d", i, announced, inUpdate, inRead, want)
		}
	}
	if err := d.Update(t.Context(), func(tx *db.Tx) error { return refused(tx) }); err == nil {
		t.Error("control: the server divides by zero")
	}
}

// PostgreSQL does not store NUL; a text that contains it is stored without.
func TestTextIsStoredWithoutNUL(t *testing.T) {
	s := startPostgres(t)
	d, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(d, "a\x00b\xff"); err != nil {
		t.Fatal(err)
	}
	var id string
	if err := d.Read(t.Context(), func(q db.Queryer) error { return q.QueryRow("SELECT id FROM t").Scan(&id) }); err != nil || id != "ab\uFFFD" {
		t.Errorf("%q, %v", id, err)
	}
}

// A crash of PostgreSQL loses commits that did not wait for the disk. The memory of the process
// does not match the tables any more, so it has to begin again from them. Without such commits
// (the control), it just continues.
func TestACrashOfPostgresThatLosesRelaxedCommitsEndsTheOwnership(t *testing.T) {
	s := startPostgres(t, "wal_writer_delay = 10s")
	for name, relaxed := range map[string]bool{"relaxed": true, "control: durable": false} {
		dir := t.TempDir()
		lease := awaitLease(t, s.Addr(), dir, nil)
		d := openLeased(t, s.Addr(), dir, lease)
		if err := put(d, name); err != nil {
			t.Fatal(err)
		}
		update := d.Update
		if relaxed {
			update = d.UpdateRelaxed
		}
		if err := update(t.Context(), func(tx *db.Tx) error { return insert(tx, name+" 2") }); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		err := put(d, name+" 3")
		if code := fault.ToWire(err).Code; relaxed != (code == "database_restarting") {
			t.Errorf("%s: the next commit: %v", name, err)
		}
		if relaxed != (lease.Err() != nil) {
			t.Errorf("%s: the lease: %v", name, lease.Err())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		_ = lease.Release() // it may be lost
		lease = awaitLease(t, s.Addr(), dir, nil)
		d = openLeased(t, s.Addr(), dir, lease)
		want := 1
		if !relaxed {
			want = 3
		}
		if err := d.Read(t.Context(), func(q db.Queryer) error {
			var n int
			if err := q.QueryRow("SELECT count(*) FROM t WHERE id LIKE ?", name+"%").Scan(&n); err != nil || n != want {
				t.Errorf("%s: %d rows, %v; want %d", name, n, err, want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := errors.Join(d.Close(), lease.Release()); err != nil {
			t.Error(err)
		}
	}
}

// A statement that affects another number of rows than expected: the closure runs again and gets
// the right number, whether the server finds out with a later read or with the COMMIT.
func TestAnUnexpectedNumberOfRowsRunsTheClosureAgain(t *testing.T) {
	s := startPostgres(t)
	d, err := onServer(t, s.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	const (
		deletion  = "DELETE FROM t WHERE id = ?"
		insertion = "INSERT INTO t (id) VALUES (?) ON CONFLICT (id) DO NOTHING"
	)
	if err := put(d, "there"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		statement, id string
		reads         bool
	}{
		"found by the COMMIT":               {deletion, "nobody", false},
		"found by a read":                   {deletion, "nobody", true},
		"an insertion, found by the COMMIT": {insertion, "there", false},
		"an insertion, found by a read":     {insertion, "there", true},
	} {
		runs, got := 0, int64(0)
		err := d.Update(t.Context(), func(tx *db.Tx) (err error) {
			runs++
			if err := insert(tx, name); err != nil {
				return err
			}
			if got, err = tx.ExecExpecting(1, c.statement, c.id); err != nil || !c.reads {
				return err
			}
			var n int
			return tx.QueryRow("SELECT count(*) FROM t").Scan(&n)
		})
		if err != nil || runs != 2 || got != 0 {
			t.Errorf("%s: %v; %d runs, and %d rows in the last", name, err, runs, got)
		}
	}
	if n := count(t, d); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
}
