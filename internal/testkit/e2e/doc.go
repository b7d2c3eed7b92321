// Package e2e runs the real program: it builds the binary, starts it as a
// process of its own with a data directory of the test, talks to it over HTTP
// as a user would, kills it with kill -9 and starts it again.
//
// A test starts a [Server] with [Start]; [Server.Kill] and [Server.Restart]
// are what every surface's crash tests use. Models are the fake servers of
// llmtest, reached over loopback, or the demo model.
//
// The binary is that of package killpoints, in which LILAC_KILL_AT names the act at
// which the process ends itself as kill -9 would.
package e2e
