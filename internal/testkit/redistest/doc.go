// Package redistest starts real redis-server processes for tests, on a free
// port of loopback and with a directory of their own, and does to them what
// happens to servers: they are killed and started again, stand still, lose
// their last second or everything.
//
// A test that calls [Start] is skipped where redis-server is not installed,
// and fails there when CI=true.
package redistest
