// Package toolserver serves callables over HTTP to commands of the agent: GET /list,
// GET /help/{callable}, POST /call and /healthz. It follows the surface-tools
// specification. Package callables implements the callables.
//
// Guarantees:
//
//   - Only the token determines what a call may do. A token that was minted for a
//     command names one request, its session and the callables. It is looked up on
//     each call, and is invalid after it was revoked, after its request has ended, and
//     after a restart, because it exists only in memory. The x-lilac-… headers of a
//     caller grant nothing.
//   - A running call is cancelled when its token becomes invalid.
//   - Inputs are normalized and validated by the schema of the callable, here and
//     nowhere else; see [NewCallable].
//   - Calls are bounded in time, size, number and concurrency. Every call is recorded,
//     also a refused one; a call that changes something is recorded before it runs.
//
// [Server.Handler] is safe for concurrent use. tokens.mu guards the tokens and their
// counters, and no other lock is taken while it is held. Each call runs in the goroutine
// of its HTTP request.
package toolserver
