package e2e

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// shared is the PostgreSQL server of all tests of the process. Each test has a schema.
var shared struct {
	once    sync.Once
	server  *postgrestest.Server
	err     error
	schemas atomic.Int64
}

// Postgres selects a schema of its own on a PostgreSQL server, which all tests of the process share.
func Postgres(t testing.TB) []string {
	t.Helper()
	return OnPostgres(NewSchema(t))
}

// NewSchema creates a schema on the shared server, and returns its URL.
func NewSchema(t testing.TB) (url string) {
	t.Helper()
	effort.SkipPostgres(t)
	if missing := postgrestest.Missing(); missing != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	shared.once.Do(func() { shared.server, shared.err = postgrestest.New() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	schema := fmt.Sprintf("s%d", shared.schemas.Add(1))
	if err := shared.server.Do("CREATE SCHEMA " + schema); err != nil {
		t.Fatal(err)
	}
	return shared.server.URL(schema)
}

// OnPostgres returns the environment that selects a database on PostgreSQL.
func OnPostgres(url string) []string { return []string{"LILAC_DB_URL=" + url} }

// RemovePostgres removes the shared server. TestMain calls it at the end.
func RemovePostgres() error {
	if shared.server == nil {
		return nil
	}
	return shared.server.Remove()
}
