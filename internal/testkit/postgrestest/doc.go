// Package postgrestest starts real PostgreSQL servers for tests, each on a free loopback
// port and in its own directory. PostgreSQL refuses to run as root, so under root the
// server runs as another user.
//
// If PostgreSQL is not installed, a test that calls [Start] is skipped, or fails if
// CI=true.
package postgrestest
