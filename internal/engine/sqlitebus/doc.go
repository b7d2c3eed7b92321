// Package sqlitebus is the default engine of the bus; it stores events in the
// database.
//
// An event is a row of the log. [db.Tx.Publish] inserts it into the caller's
// own transaction, so state and events commit together, in one sync for
// all waiting transactions. A position is the event's number in its topic, counted
// without gaps from 1, so a missing row is noticed; every row carries a checksum
// that is verified whenever it is read.
//
// A commit hands its events to package delivery, which delivers them to groups
// and tails; this package provides the log and trims it once a minute.
package sqlitebus
