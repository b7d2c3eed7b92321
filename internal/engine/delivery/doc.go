// Package delivery hands the events of a log to those who want them: groups
// with their attempts, leases and dead letters, and live tails. It is the half
// of an engine that is the same wherever the events are; the engine brings the
// [Log] and tells the [Engine] what was appended ([Engine.Feed]).
//
// What is delivered is pushed. Nothing polls; timers run only for leases and
// retries. While a handler is free, a group takes events from the log into its
// pending rows in the database; what would only wait for a handler stays in the
// log. The rows hold the attempts (written before the handler runs: in the
// transaction that appends the event when a handler can begin at once, else
// without a sync), the consumer and its lease; committing a delivery deletes its
// row, in the handler's own transaction if it asks for that. A tail has a bounded
// queue; when it overflows, the tail reads the log from its own position and
// rejoins without a gap.
//
// Because the state of the groups is in the database of the process, it cannot
// disagree with what handlers wrote, and it survives whatever happens to a log
// that lives elsewhere.
//
// Events that are delivered share their headers and data: handlers must not
// change them. One process owns the database, so a lease matters between a
// process that died and the next one.
package delivery
