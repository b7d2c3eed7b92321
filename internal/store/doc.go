// Package store is the tables: sessions with their history, requests with
// their journal, the mailbox and the runner's state, the inbox, and the blobs
// beside them. One file per table, each satisfying a port of the core whose
// types it keeps.
//
// What it promises: rows that hold what somebody said carry a checksum, and a
// damaged row is a fault, never served and never removed. Reading takes a
// [db.Queryer] and works inside and outside of transactions; writing takes a
// transaction, so that whoever calls decides what is written together. An
// unknown id is a fault.NotFound with a sentence for a person.
package store
