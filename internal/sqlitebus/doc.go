// Package sqlitebus is the bus in the database itself: the default engine.
//
// An event is a row of the log. [db.Tx.Publish] inserts it into the caller's
// own transaction, so state and events commit together, in one sync for all
// that waits. A position is the event's place in its topic, counted without
// gaps from 1, so a row that vanished is noticed; every row carries a checksum
// that is verified whenever it is read.
//
// Delivery is pushed: a commit hands its events to the groups and tails of
// their topics. Nothing polls; timers run only for leases, retries and the
// trimming once a minute. A group takes events into its pending rows, which
// hold the attempts (written before the handler runs, without a sync), the
// consumer and its lease; committing a delivery deletes its row. A tail has a
// bounded queue; when it overflows, the tail reads the log from its own
// position and rejoins without a gap.
//
// Events that are delivered share their headers and data: handlers must not
// change them. One process owns the database, so a lease matters between a
// process that died and the next one.
package sqlitebus
