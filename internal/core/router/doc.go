// Package router decides which messages of a platform wake the agent, and how:
// as a new request, or as a steer, follow-up, or interrupt of the request that
// is running. It follows the request-router specification.
//
// It promises:
//
//   - [Decide] is pure and contains every rule; its table test is the
//     specification. The [State] of a session is stored, so that after a restart
//     the router knows which requests run and which burst waits for the debounce.
//   - A message is forwarded at most once, in the transaction that acknowledges
//     its event. While the request that it began is queued, an edit is forwarded,
//     too, and a deletion cancels the request.
//   - The model receives a message once. A message that it received earlier, with
//     a reply to it or through "Ask about this", is answered together with that.
//   - The router calls no platform. It takes its facts from the event and the
//     message cache.
//   - The agent's own messages, the messages of other bots, and replies that a
//     workflow waits for wake nobody.
//
// App creates one [Service] per platform. The Discord adapter calls
// [Service.Ask]; workflows call [Service.Route].
//
// # Concurrency
//
// A Service is safe for concurrent use. All decisions about a session are made
// in write transactions, which the database runs one after another. Run uses
// three goroutines that consume events and one that watches bursts; the latter
// starts at most eight goroutines that ask the gate, one per session. The mutex
// of the burst list is the only lock. It is taken after a commit and never held
// during I/O.
package router
