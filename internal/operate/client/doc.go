// Package client calls a running server over HTTP with the operator's token. The
// command line uses it.
//
// [Connect] finds the server: at a given address, or at the address that the server
// wrote to its data directory. It sends the token of the data directory only to this
// machine; for another machine the token must be given. If no server answers, the error
// is a fault of kind Unavailable that says how to start one. Errors of the server are
// returned as the fault that it sent.
//
// [Client.Events] and [Client.Tail] follow a stream. After a broken connection or a
// restart of the server they resume after the last handled event, without loss or
// repetition.
//
// A [Client] is safe for concurrent use.
package client
