package db_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/postgrestest"
)

// A statement that was cancelled is not a restart of PostgreSQL, and a schema that is missing cannot be
// granted to anybody.
func TestWhatPostgresRefusesIsNamed(t *testing.T) {
	s := startPostgres(t)
	for schema, c := range map[string]struct{ parameters, code, text string }{
		"one":     {"&statement_timeout=1", "database_cancelled", "statement_timeout"},
		"nothing": {"", "database_rights", "CREATE SCHEMA"},
	} {
		url := postgrestest.URLAt(s.Addr(), schema) + c.parameters
		slow := append(slices.Clone(tables), db.Migration{Name: "slow", SQL: "SELECT 1", Postgres: "SELECT pg_sleep(1)"})
		_, err := onServer(t, s.Addr(), schema, func(o *db.Options) { o.URL, o.Migrations = url, slow })
		if wire := fault.ToWire(err); wire.Code != c.code || !strings.Contains(wire.Message, c.text) {
			t.Errorf("%q: %v, want %s with %q", schema+c.parameters, err, c.code, c.text)
		}
	}
}
