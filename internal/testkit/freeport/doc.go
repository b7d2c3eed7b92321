// Package freeport finds ports for the servers of tests that are killed and
// started again on the same address.
//
// Asking the system for port 0 is not enough for them: it may give the same
// port to somebody else, or take it for an outgoing connection, while the
// server is down. These ports lie below those that the system hands out, and
// each process of tests takes them from blocks that no other such process has:
// whoever listens on the first port of a block has the rest of it too.
package freeport
