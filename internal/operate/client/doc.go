// Package client talks to a running server the way any other program would:
// over HTTP, with the operator's token. The commands of the command line are
// made of it.
//
// [Connect] finds the server: an address that was given, else the one that the
// server wrote into its data directory. The token of the data directory is
// sent to this machine only; to another it must be given. A server that does
// not answer is a fault of kind Unavailable that says how to start one. What a
// server refuses comes back as the fault that it sent.
//
// [Client.Events] and [Client.Tail] follow a stream and resume after a broken
// connection or a restart of the server behind the last event that was
// handled, so nothing is missed and nothing comes twice.
package client
