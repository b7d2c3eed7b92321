// Package db opens the database of a data directory and owns its one writer.
//
// What it promises:
//
//   - One process owns a data directory. A second one is refused by name
//     (fault.Conflict), as are a file that is not a sound database and one
//     that a newer program wrote; nothing is touched then.
//   - [DB.Update] returns when its work is on disk (SQLite, WAL,
//     synchronous=FULL). What waits is committed as a group, one sync for all.
//     An error or a panic of one closure rolls back that closure alone: should
//     it have written, the group is repeated with a savepoint for each.
//   - A database whose files are removed, moved or replaced while it is open takes
//     no more writes: no start would find them. It does again when they are back.
//   - [DB.UpdateRelaxed] survives kill -9 but maybe not a power cut. It waits
//     for no sync unless its group holds an Update.
//   - [Tx.Publish] writes events into the same transaction through the function
//     that the bus installed with [DB.SetPublisher], so state and events never
//     disagree.
//   - [Tx.AfterCommit] callbacks run in the order of the commits, after the
//     sync and before Update returns, under no lock. They must be quick and
//     must not call Update.
//   - [DB.Read] sees one snapshot and never waits for the writer. It runs on one
//     of a few readers, so a closure must not read within a read.
//   - Nothing is unbounded: the queue of the writer, a group, the readers and
//     the cached statements have limits, which are constants with a reason.
//
// Tables belong to the packages that register them as [Migration]s. Rows whose
// damage must not go unnoticed carry a [Checksum]; a mismatch is [Damaged].
package db
