package db

import "context"

// engine is a database that [DB] runs on.
type engine interface {
	// writer returns the connection of the writer goroutine.
	writer() conn
	// beginWrite returns the statement that begins a transaction of the writer.
	beginWrite() string
	// openReader opens a read-only connection.
	openReader(ctx context.Context) (conn, error)
	// setDurability sets, between two transactions of the writer, whether a commit
	// waits for the disk.
	setDurability(relaxed bool) error
	// checkLocation returns an error if the next start would not find what is written now.
	checkLocation() error
	// integrityErrors lists the faults in the structure of the database.
	integrityErrors(q Queryer) ([]string, error)
	close() error
}

// conn is one connection. Only one goroutine uses it at a time.
type conn interface {
	exec(ctx context.Context, query string, args ...any) (Result, error)
	query(ctx context.Context, query string, args ...any) (Rows, error)
	queryRow(ctx context.Context, query string, args ...any) Row
	close() error
}
