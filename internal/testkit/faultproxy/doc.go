// Package faultproxy is a TCP proxy with faults on demand: cut, silent, slow, and
// reset connections, and answers that get lost. Tests put it between Lilac and a
// server such as Redis or PostgreSQL.
//
// A [Proxy] listens on loopback. Its methods may be called at any time from any
// goroutine, also while connections are open. The test that starts a proxy owns
// its goroutines: they end with the test.
package faultproxy
