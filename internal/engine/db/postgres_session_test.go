package db_test

import (
	"fmt"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/faultproxy"
)

// A proxy such as HAProxy that has not noticed a failover leads to the former primary, which is a
// standby now, and keeps those connections. Nothing is read there, because it may be old: the next
// connections lead to the primary.
func TestNothingIsReadFromAStandby(t *testing.T) {
	primary := startPostgres(t)
	link := faultproxy.Start(t, primary.Addr())
	standby := primary.StartStandby(t, primary.Addr(), 0)
	d, err := onServer(t, link.Addr, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(d, "a"); err != nil {
		t.Fatal(err)
	}
	recovering := func() (answer string, err error) {
		err = d.Read(t.Context(), func(q db.Queryer) error {
			return q.QueryRow("SELECT CAST(pg_is_in_recovery() AS TEXT)").Scan(&answer)
		})
		return answer, err
	}
	link.Route(standby.Addr())
	link.Cut()
	if answer, err := recovering(); fault.ToWire(err).Code != "database_read_only" {
		t.Errorf("a read at a standby: %q, %v, want database_read_only", answer, err)
	}
	if err := put(d, "b"); fault.ToWire(err).Code != "database_read_only" {
		t.Errorf("a write at a standby: %v, want database_read_only", err)
	}
	link.Route(primary.Addr()) // without a cut: nothing is connected
	if answer, err := recovering(); answer != "false" {
		t.Errorf("after the proxy has noticed: %q, %v", answer, err)
	}
	if err := put(d, "b"); err != nil {
		t.Errorf("after the proxy has noticed: %v", err)
	}
}

// To read only, as doctor does, a standby is good enough. Nothing is written there.
func TestAStandbyIsOpenedToReadOnly(t *testing.T) {
	primary := startPostgres(t)
	owner, err := onServer(t, primary.Addr(), "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	standby := primary.StartStandby(t, primary.Addr(), 0)
	d, err := onServer(t, standby.Addr(), "one", func(o *db.Options) { o.ReadOnly = true })
	if err != nil || d.StoreID() != owner.StoreID() {
		t.Fatalf("%v, want the same store", err)
	}
	if err := put(d, "a"); fault.ToWire(err).Code != "read_only" {
		t.Errorf("a write: %v, want read_only", err)
	}
}

// With several hosts, the primary is found without target_session_attrs, too.
func TestThePrimaryOfSeveralHostsIsFound(t *testing.T) {
	primary := startPostgres(t)
	standby := primary.StartStandby(t, primary.Addr(), 0)
	for _, parameter := range []string{"", "&target_session_attrs=read-write", "&target_session_attrs=primary"} {
		schema := fmt.Sprintf("s%d", len(parameter))
		if err := primary.Do("CREATE SCHEMA " + schema); err != nil {
			t.Fatal(err)
		}
		d, err := onServer(t, standby.Addr()+","+primary.Addr(), schema, func(o *db.Options) { o.URL += parameter })
		if err == nil {
			err = put(d, "a")
		}
		if err != nil {
			t.Errorf("%q: %v", parameter, err)
		}
	}
}

// Providers limit what their users do, with settings of the role. They end neither a migration nor an
// idle connection, and a commit waits for the disk, unless the URL says something else.
func TestLimitsOfTheRoleAreLifted(t *testing.T) {
	s := startPostgres(t)
	if err := s.Do(`ALTER ROLE postgres SET statement_timeout = '20s'; ALTER ROLE postgres SET lock_timeout = '20s';
		ALTER ROLE postgres SET idle_session_timeout = '20s'; ALTER ROLE postgres SET synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	for parameters, want := range map[string]string{
		"": "0 0 0 on",
		"&statement_timeout=5s&synchronous_commit=remote_apply": "5s 0 0 remote_apply",
		"&synchronous_commit=off":                               "0 0 0 off",
	} {
		d, err := onServer(t, s.Addr(), "one", func(o *db.Options) { o.URL += parameters })
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := d.Update(t.Context(), func(tx *db.Tx) error {
			return tx.QueryRow(`SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
				current_setting('idle_session_timeout'), current_setting('synchronous_commit'))`).Scan(&got)
		}); err != nil || got != want {
			t.Errorf("%q: the connection has %q, %v, want %q", parameters, got, err, want)
		}
	}
}
