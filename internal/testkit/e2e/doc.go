// Package e2e starts the real program for tests: it builds the binary, starts it as a separate
// process with a temporary data directory, uses its HTTP API as a user would, kills it with
// kill -9, and restarts it. The tests are in the folder e2e of the repository.
//
// A test starts a [Server] with [Start]. The crash tests of every surface use [Server.Kill] and
// [Server.Restart]. Models are the fake servers of llmtest on loopback, or the demo model.
//
// The binary is built from package killpoints. Its variable LILAC_KILL_AT names the point at which
// the process kills itself, like kill -9.
package e2e
