// Package db opens the database of a data directory and owns its only writer.
//
// It promises:
//
//   - One process owns a data directory. A second process is refused with
//     fault.Conflict and the name of the directory, as is a file that is not a sound
//     database or that a newer version wrote. A refused file is not changed.
//   - [DB.Update] returns when its work is on disk (SQLite, WAL, synchronous=FULL).
//     [DB.UpdateRelaxed] survives kill -9, but possibly not a power failure.
//   - [Tx.Publish] writes events into the same transaction, so that state and events
//     never disagree.
//   - A database whose files are removed, moved, or replaced while it is open
//     rejects writes, because the next start would not find them. It accepts writes
//     again when the files are back.
//   - The writer's queue, a group, the readers, and the cached statements are bounded
//     by constants.
//
// Tables belong to the packages that register them as [Migration]s. Rows whose damage
// must not go unnoticed carry a [Checksum]; a mismatch is a [DamagedRow].
//
// # Concurrency
//
// All methods of [DB] are safe for concurrent use. A [Tx] and a [Queryer] belong to
// the closure that receives them, which must not pass them to another goroutine.
//
//   - The writer is one goroutine. It owns the writer's connection. It commits
//     everything that waits as one group with one sync, and it runs the closures of a
//     group one after another in the order of their arrival.
//   - A closure that returns an error or panics rolls back its own work alone: if it
//     has written, the writer rolls the group back and repeats it with one savepoint
//     per closure. A closure may therefore run twice. It must not have effects outside
//     the transaction except through [Tx.AfterCommit] and [Tx.AfterRollback].
//   - The notifier is one goroutine. It runs the AfterCommit callbacks in the order of
//     the commits, and then releases the callers of Update, while the writer is busy
//     with the next group. Callbacks run after the sync and under no lock. They must
//     be quick and must not call Update. If nothing waits, the writer notifies itself.
//   - AfterRollback callbacks run in the writer, in reverse order, before it does
//     anything else.
//   - [DB.Read] runs its closure in one snapshot on one of a few reader goroutines.
//     Reads never wait for the writer. A closure must not call Read or Update: all
//     readers could wait for one another.
//   - DB.mu guards small fields only. No closure, callback, or I/O runs under it.
//
// # Engines
//
// The group commit, the readers, and the transactions know the database only through
// the interfaces engine and conn (engine.go). The files sqlite_*.go and postgres*.go
// implement them. Callers see only [Queryer], [Rows], [Row], and [Result].
//
// A statement is written once, in the common subset of both dialects: ON CONFLICT with
// its target, aliases on subqueries, CASE instead of iif and of max with two arguments,
// integers instead of booleans, types in capitals. PostgreSQL gets $1 for ?, BIGINT for
// INTEGER, and functions with the names of those of SQLite that statements use
// (json_each of a list, ->> of stored JSON). [Alternative] is for the rest.
//
// On PostgreSQL, a statement that [Tx.Exec] was asked to run may be sent later: with the
// next query, when its result is needed, or with the COMMIT. A transaction without reads
// takes one round trip. The reads of what follows can travel with the COMMIT, too; see
// [Tx.AheadOfNext]. Each group commit changes the row of the table writers, which
// tells after a lost connection whether the commit happened, and which rejects the
// commits of a process whose place another one has taken.
package db
