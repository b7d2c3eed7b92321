package db

import "database/sql"

// ErrNoRows is the error of [Row.Scan] if the query returned no row.
var ErrNoRows = sql.ErrNoRows

// Queryer runs queries. A [Tx] is one, and [DB.Read] passes one to its closure.
type Queryer interface {
	Query(query string, args ...any) (Rows, error)
	QueryRow(query string, args ...any) Row
}

// Rows is the result of a query. The caller must close it before its closure returns.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Columns() ([]string, error)
	// Err returns the error that ended the iteration, if any.
	Err() error
	Close() error
}

// Row is the result of a query that returns at most one row.
type Row interface {
	// Scan returns ErrNoRows if there is no row.
	Scan(dest ...any) error
	Err() error
}

// Result is the result of a statement that returns no rows.
type Result interface {
	RowsAffected() (int64, error)
}
