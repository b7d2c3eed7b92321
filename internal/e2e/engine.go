package e2e

import "testing"

// Engine is a bus for servers to run on. It returns the environment that
// chooses it, and ends with the test what it has started.
type Engine func(t testing.TB) (env []string)

// SQLite is the engine that needs nothing.
func SQLite(testing.TB) []string { return nil }

// OnEach runs a test on each engine.
func OnEach(t *testing.T, test func(t *testing.T, bus Engine)) {
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite) })
}
