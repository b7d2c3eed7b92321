// Package forward passes the requests that a waiting node receives on to the active node.
//
// # Promises
//
//   - A request waits for an active node. It is sent once, and repeated only if the active node has
//     not taken it, or if it is repeatable: it only reads, or has an Idempotency-Key, and it is small.
//     The active node takes another request when it asks for its body (Expect: 100-continue, RFC 9110
//     section 10.1.1); one without a body is taken when there is a connection.
//   - The response arrives as it is sent, so that event streams and answers stream.
//   - A request is passed on once: a node that receives a passed-on request while it waits itself
//     refuses it, so that two nodes cannot send a request in a circle. The other one then waits on.
//
// The client's Host header stays as it is, because the active node checks it. The scheme that the
// client used is passed on in X-Forwarded-Proto; the active node trusts a node with the right key.
//
// # Concurrency
//
// All methods of [Forwarder] are safe for concurrent use. It has no goroutines of its own.
package forward
