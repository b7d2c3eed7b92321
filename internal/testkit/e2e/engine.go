package e2e

import (
	"testing"

	"lilac/internal/testkit/redistest"
)

// Engine is a bus for servers to run on. It returns the environment that
// chooses it, and ends with the test what it has started.
type Engine func(t testing.TB) (env []string)

// SQLite is the engine that needs nothing.
func SQLite(testing.TB) []string { return nil }

// Redis is a Redis server of the test's own, with an append-only file.
func Redis(t testing.TB) []string {
	t.Helper()
	return OnRedis(redistest.Start(t, redistest.Options{}))
}

// OnRedis is the environment that chooses a Redis server.
func OnRedis(s *redistest.Server) []string { return []string{"LILAC_BUS_URL=" + s.URL()} }

// OnEach runs a test on each engine, beside other tests.
func OnEach(t *testing.T, test func(t *testing.T, bus Engine)) {
	t.Parallel()
	OnEachAlone(t, func(t *testing.T, bus Engine) {
		t.Parallel()
		test(t, bus)
	})
}

// OnEachAlone runs a test on each engine while no other one runs: what takes the
// whole machine, or is measured.
func OnEachAlone(t *testing.T, test func(t *testing.T, bus Engine)) {
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite) })
	t.Run("redis", func(t *testing.T) { test(t, Redis) })
}
