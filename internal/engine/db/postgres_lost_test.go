package db

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// A savepoint is lost with its connection. Its rollback tells why, instead of beginning on another
// connection, which has no such savepoint.
func TestTheRollbackOfALostSavepointTellsTheLoss(t *testing.T) {
	effort.SkipPostgres(t)
	s := postgrestest.Start(t)
	e := &postgresEngine{url: s.URL("")}
	down := true
	c := e.newConn(func(ctx context.Context) (*pgconn.PgConn, error) {
		if down {
			down = false
			return nil, errors.New("the server is down")
		}
		return e.dial(ctx)
	})
	defer func() { _ = c.close() }()
	c.start()
	for _, statement := range []string{"BEGIN", "SAVEPOINT one"} {
		if _, err := c.exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.flush(); err == nil {
		t.Fatal("there is no error without a server")
	}
	if _, err := c.exec(t.Context(), "ROLLBACK TO SAVEPOINT one"); err == nil || !strings.Contains(err.Error(), "the server is down") {
		t.Errorf("the rollback: %v, want that the server is down", err)
	}
}
