package db

import (
	"context"
	"errors"
)

// engine is a database that [DB] runs on.
type engine interface {
	transactions
	// openReader opens a read-only connection.
	openReader(ctx context.Context) (conn, error)
	// checkLocation returns an error if the next start would not find what is written now.
	checkLocation() error
	// integrityErrors lists the faults in the structure of the database.
	integrityErrors(q Queryer) ([]string, error)
	// migrating returns the SQL of a migration for this engine.
	migrating(m Migration) string
	// classify wraps an error of the engine in a fault that says what to do.
	classify(err error) error
	// transient reports whether a transaction that failed with this error can succeed if
	// it is repeated.
	transient(err error) bool
	close() error
}

// transactions are the transactions of the writer. One goroutine at a time calls them.
type transactions interface {
	// writer returns the connection of the writer goroutine.
	writer() conn
	// begin begins a transaction of the writer. Unless it is relaxed, its commit waits
	// for the disk.
	begin(relaxed bool) error
	// commit commits the transaction. The error is errStatement if a statement of the
	// transaction failed, and errOutcomeUnknown if the connection was lost and it is not
	// known whether the transaction is committed.
	commit() error
	// rollback ends the transaction, if there is still one.
	rollback()
	// outcome returns, after errOutcomeUnknown, whether the transaction is committed.
	outcome() (committed bool, err error)
}

// conn is one connection. Only one goroutine uses it at a time.
type conn interface {
	// exec runs a statement. It may delay the statement until its result, the result of
	// a query, or the end of the transaction is needed; an error is then returned there.
	exec(ctx context.Context, query string, args ...any) (Result, error)
	query(ctx context.Context, query string, args ...any) (Rows, error)
	queryRow(ctx context.Context, query string, args ...any) Row
	// script runs several statements.
	script(ctx context.Context, statements string) error
	// flush runs the statements that exec has delayed. It also returns the error that
	// ended the transaction, if a caller has ignored it.
	flush() error
	// beginRead begins the snapshot of one read, and endRead ends it.
	beginRead(ctx context.Context) error
	endRead() error
	close() error
}

var (
	// errStatement marks a failure of a statement that is not the COMMIT.
	errStatement = errors.New("a statement of the transaction failed")
	// errOutcomeUnknown marks a lost connection during a COMMIT.
	errOutcomeUnknown = errors.New("the connection was lost during the commit")
)
