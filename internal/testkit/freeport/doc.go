// Package freeport allocates ports for test servers that are killed and restarted on the same
// address.
//
// Port 0 is not enough for that: while the server is down, the system may assign the port to
// another process or use it for an outgoing connection. The ports of this package are below the
// ephemeral range of the system. Each test process takes them from blocks of its own: a process
// claims a block by listening on its first port.
package freeport
