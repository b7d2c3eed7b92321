// Package store implements the tables of the database, and the files (blobs) that are
// stored next to it. Each group of tables has its own file and implements a port of the
// package whose types it stores.
//
// The rows of most tables carry a checksum; checksummedTables lists these tables. Reading a
// damaged row returns an error or, in lists for people, a placeholder, never the damaged
// content.
//
// Methods that read take a [db.Queryer] and work inside and outside transactions. Methods
// that write take a [db.Tx], so that the caller decides which writes are atomic. For an
// unknown id, methods return a fault.NotFound whose message can be shown to users.
package store
