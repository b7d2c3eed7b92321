// Package sqlitebus is the bus in the database itself: the default engine.
//
// An event is a row of the log. [db.Tx.Publish] inserts it into the caller's
// own transaction, so state and events commit together, in one sync for all
// that waits. A position is the event's place in its topic, counted without
// gaps from 1, so a row that vanished is noticed; every row carries a checksum
// that is verified whenever it is read.
//
// A commit hands its events to package delivery, which brings them to groups
// and tails; this package is the log below it and the trimming, once a minute.
package sqlitebus
