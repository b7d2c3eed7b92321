// Package router decides which messages of a platform wake the agent, and how:
// as a new request, or as a steer, follow-up or interrupt of the one that runs.
// It follows the request-router specification.
//
// What it promises:
//
//   - [Decide] is pure and knows every rule; its table test is the
//     specification. A session's [State] is kept in the store, so that after a
//     restart the router knows what runs and what waits for the debounce.
//   - A message is forwarded at most once, and what it becomes is written in the
//     transaction that acknowledges it. While the request that it began waits, an
//     edit is forwarded, too, and a deletion cancels the request.
//   - The model is told a message once: one that it has with a reply to it, or
//     because somebody asked about it, is answered with that.
//   - The router calls no platform. What it needs to know of a message is in the
//     event, and what it forwards is composed from the cache.
//   - Our own messages, those of other programs, and replies that a workflow
//     waits for wake nobody.
package router
