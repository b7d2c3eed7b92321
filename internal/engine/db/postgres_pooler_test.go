package db_test

import (
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/postgrestest"
)

// Through a pooler that keeps a connection for each session, everything works, with the parameters of
// the URL and with ours, which PgBouncer refuses at the start of a connection. One that does not keep it
// is refused by name.
func TestAPooler(t *testing.T) {
	s := startPostgres(t)
	t.Run("session", func(t *testing.T) {
		addr, dir := s.Pooler(t, "session"), t.TempDir()
		lease := awaitLease(t, addr, dir, nil)
		d := openLeased(t, addr, dir, lease)
		if err := put(d, "a row"); err != nil {
			t.Error(err)
		}
		var schema, timeout string
		err := d.Read(t.Context(), func(q db.Queryer) error {
			return q.QueryRow("SELECT current_schema(), current_setting('idle_in_transaction_session_timeout')").Scan(&schema, &timeout)
		})
		if err != nil || schema != "one" || timeout == "0" {
			t.Errorf("the schema is %q and a transaction may wait for %q, %v", schema, timeout, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
	t.Run("transaction", func(t *testing.T) {
		addr := s.Pooler(t, "transaction")
		_, waiting := db.AwaitLease(t.Context(), db.LeaseOptions{URL: postgrestest.URLAt(addr, "one"), Dir: t.TempDir(), Migrations: tables})
		_, examined := db.ExamineServer(t.Context(), postgrestest.URLAt(addr, "one"), tables)
		for what, err := range map[string]error{"a start": waiting, "doctor": examined} {
			if code := fault.ToWire(err).Code; code != "database_pooler" {
				t.Errorf("%s: %v, want the pooler as the reason", what, err)
			}
		}
	})
}
