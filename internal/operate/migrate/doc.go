// Package migrate moves the data of a Lilac between the SQLite database of its data directory
// and a PostgreSQL database, in either direction.
//
// It promises:
//
//   - Both databases belong to it alone meanwhile. A database that another process uses, that
//     belongs to another program, or that has the data of another store is refused and not
//     changed.
//   - The source keeps its rows. When everything is copied and compared, it is marked, so that a
//     start with the wrong database is refused.
//   - An interrupted move continues where it was. A start with the unfinished target is refused.
//   - The rows of both databases are compared by a checksum per table before the move ends. A
//     table that differs, because the source was used after an interruption, is copied again.
//
// A [Move] belongs to one goroutine.
package migrate
