// Package toolserver offers callables over HTTP to commands of the
// agent: GET /list, GET /help/{callable}, POST /call and /healthz. It follows
// the surface-tools specification; the callables themselves are elsewhere.
//
// What it promises:
//
//   - What a call may do comes from its token alone. A token that was minted for
//     a command names one request, its session and the callables; it is looked
//     up on each call, and dead when it is revoked, when its request has ended,
//     and after a restart: it lives in memory only. The x-lilac-… headers of a
//     caller allow nothing.
//   - A call that still runs when its token dies is ended.
//   - Inputs are brought into the form of the callable's schema and checked here
//     and nowhere else; see [Callable].
//   - Calls are bounded in time, size, number and at once, and each is recorded,
//     also one that is refused; one that changes something before it runs, too.
//
// [Server.Handler] may be called from many goroutines.
package toolserver
