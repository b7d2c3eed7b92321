package db_test

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

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

// Pgpool-II with load_balance_mode sends a SELECT to a standby, but what it takes for more than a read
// to the primary, such as pg_is_in_recovery. It is refused by name, before anything old is read.
func TestAPoolerThatSendsReadsToAStandby(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			splitReads(conn)
		}
	}()
	defer func() {
		_ = l.Close()
		<-ended
	}()
	url := "postgres://lilac@" + l.Addr().String() + "/lilac?sslmode=disable"
	_, waiting := db.AwaitLease(t.Context(), db.LeaseOptions{URL: url, Dir: t.TempDir(), Migrations: tables})
	_, examined := db.ExamineServer(t.Context(), url, tables)
	for what, err := range map[string]error{"a start": waiting, "doctor": examined} {
		if wire := fault.ToWire(err); wire.Code != "database_pooler" || !strings.Contains(wire.Message, "load_balance_mode = off") {
			t.Errorf("%s: %v, want the pooler as the reason", what, err)
		}
	}
}

// splitReads serves one connection like Pgpool-II 4.3 in front of a primary and a standby.
func splitReads(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "15.20"})
	b.Send(&pgproto3.ParameterStatus{Name: "server_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	answer := "f"
	for b.Flush() == nil {
		message, err := b.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			if answer = "f"; strings.Contains(m.Query, "in_hot_standby") {
				answer = "on"
			}
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Describe:
			b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("one"), DataTypeOID: 25}}})
		case *pgproto3.Execute:
			b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(answer)}})
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}
