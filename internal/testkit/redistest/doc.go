// Package redistest starts real redis-server processes for tests, each on a free
// loopback port and in its own directory. It simulates failures: it can kill, restart
// and pause a server, and make it lose its last second of data or everything.
//
// If redis-server is not installed, a test that calls [Start] is skipped, or fails if
// CI=true.
package redistest
