package e2e

import (
	"os"
	"testing"

	"lilac/internal/testkit/redistest"
)

// An Engine starts what a bus needs, and returns the environment that selects the bus. It stops
// with the test.
type Engine func(t testing.TB) (env []string)

// SQLite selects the default engine, which needs no setup.
func SQLite(testing.TB) []string { return nil }

// WithRedis returns the environment that connects a Redis server to the bus.
func WithRedis(s *redistest.Server) []string { return []string{"LILAC_BUS_URL=" + s.URL()} }

// databaseEnv replaces SQLite by PostgreSQL in the tests of [OnEach], if it is "postgres". CI does
// not set it: the database has its own suites on both engines.
const databaseEnv = "LILAC_TEST_DB"

// OnEach runs a test in parallel with others, on the database that is selected.
func OnEach(t *testing.T, test func(t *testing.T, bus Engine)) {
	t.Parallel()
	OnEachAlone(t, func(t *testing.T, bus Engine) {
		t.Parallel()
		test(t, bus)
	})
}

// OnEachAlone is like OnEach for tests that need the whole machine: no other test
// runs at the same time.
func OnEachAlone(t *testing.T, test func(t *testing.T, bus Engine)) {
	if os.Getenv(databaseEnv) == "postgres" {
		t.Run("postgres", func(t *testing.T) { test(t, Postgres) })
		return
	}
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite) })
}
