// Package delivery delivers the events of a log to groups, with attempts, leases
// and dead letters, and to live tails. It is the part of an engine that does not
// depend on where the events are stored: the engine provides the [Log], and calls
// [Engine.Feed] after it has appended events. Only engines of the bus import it.
//
// # Delivery
//
// Delivery is push-based. Nothing polls; timers run only for leases, heartbeats
// and retries. While a handler is free, a group moves events from the log into
// its pending rows in the database; the backlog stays in the log. A pending row
// holds the attempt, the consumer and its lease. It is written before the handler
// runs: in the transaction that appends the event if a handler can begin at once,
// otherwise without a sync. Committing a delivery deletes its row, in the
// handler's own transaction if the handler asks for that. A tail has a bounded
// queue; when it overflows, the tail reads the log from its own cursor and
// rejoins the queue without a gap.
//
// The state of the groups is in the same database as the handlers' writes, so the
// two cannot disagree, and a log stored elsewhere can be lost without losing it.
// One process owns the database, so a lease matters only between a process that
// died and its successor.
//
// # Concurrency
//
// All methods of [Engine] may be called concurrently. Subscribers share the
// headers and data of an event, so handlers must not change them.
//
//   - Each served group has one dispatcher goroutine (group.dispatch). It owns
//     every field of the group except those guarded by group.mu, Engine.mu (users)
//     or a channel. Other goroutines reach it through post, report and enqueue.
//   - Each attempt runs in its own goroutine and reports its outcome to the
//     dispatcher. A lane has at most one running handler.
//   - A reader belongs to the goroutine that calls Next; only its tailQueue is shared.
//
// Locks nest in this order: Engine.mu, hub.mu, then group.mu or tailQueue.mu (never
// both). Feed releases Engine.mu before it takes hub.mu. No lock is held during
// I/O, with one exception: [Engine.Claim] runs in the database's writer and holds
// hub.mu and group.mu while it writes the pending row. Code that holds one of
// these locks must therefore never wait for the writer.
package delivery
