// Package bus is the contract of the durable bus: topics of ordered events,
// groups that handle them, tails that watch them. Engines implement it
// ([lilac/internal/engine/sqlitebus] is the default one) and bustest holds the suite
// that checks them. The rules, the same on every engine:
//
//  1. Publish returns when the events are durable: synced on SQLite, and as
//     synchronous_commit says on PostgreSQL.
//  2. An event's id is minted by its publisher from the logical act, so
//     publishing again after an unknown outcome is the same event. Its position
//     is the engine's. Consumers deduplicate by id.
//  3. Order is kept per lane within a subscription; different lanes run side by
//     side, bounded by Subscription.Parallel.
//  4. A handler that returns nil commits. An error, a panic or a handler that
//     does not return is retried with backoff; attempts are counted before the
//     handler runs, so a crash counts. After MaxAttempts the event goes to the
//     dead letters with its reason, and its lane goes on; an error marked by
//     [Permanent] sends it there at once. Stopping is not an attempt, and
//     neither is an error of the database itself (db.IsOutage).
//  5. A long handler keeps its delivery by heartbeat; a dead one's is taken over
//     when the lease expires; a restarted consumer first takes back its own.
//  6. Groups exist before anything publishes (Declare). A new group on a log
//     with history starts at its end unless it is declared FromBegin. A silent
//     group raises an alarm and never blocks trimming for ever.
//  7. An event type that a handler does not want is committed, never left
//     pending. All consumers of a group want the same types; a consumer that
//     declares others meanwhile is refused.
//  8. Stopping is context cancellation. A handler never waits for its own
//     subscription to end.
//  9. Trimming never removes what a live group has not committed. Output topics
//     expire 24 h after their last append, others keep a configured age. A
//     reader that asks for removed events gets [ErrTrimmed].
//  10. Live tails are pushed to in process through a bounded queue and fall back
//     to the log when it overflows. Nothing anywhere is unbounded.
//
// All receivers share an event, so they must not change its headers or data.
// Every layer above may import this package; cores subscribe and publish through
// it and never see an engine.
package bus
