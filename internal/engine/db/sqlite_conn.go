package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"lilac/internal/foundation/fault"
)

// statementsMax bounds the cached statements of a connection. The source has fewer
// queries; generated ones must not accumulate.
const statementsMax = 400

// sqliteConn is one connection with its prepared statements.
type sqliteConn struct {
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	onPlan func(statement string, steps []string)
}

func newSQLiteConn(c *sql.Conn, onPlan func(statement string, steps []string)) *sqliteConn {
	return &sqliteConn{conn: c, stmts: make(map[string]*sql.Stmt), onPlan: onPlan}
}

func (c *sqliteConn) close() error {
	for _, st := range c.stmts {
		st.Close()
	}
	return c.conn.Close()
}

func (c *sqliteConn) script(ctx context.Context, statements string) error {
	_, err := c.conn.ExecContext(ctx, statements)
	return err
}

// flush has nothing to do: no statement is delayed, and SQLite ends a transaction only
// after errors for which [IsEngineError] is true.
func (c *sqliteConn) flush() error { return nil }

func (c *sqliteConn) beginRead(context.Context) error {
	_, err := c.exec(context.Background(), "BEGIN")
	return err
}

func (c *sqliteConn) endRead() error {
	_, err := c.exec(context.Background(), "ROLLBACK")
	return err
}

// statement returns the cached statement of a query, or nil if the cache is full.
func (c *sqliteConn) statement(query string) (*sql.Stmt, error) {
	if st, ok := c.stmts[query]; ok {
		return st, nil
	}
	if len(c.stmts) >= statementsMax {
		return nil, nil
	}
	st, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = st
	if c.onPlan != nil {
		steps, err := c.plan(query)
		if err != nil {
			return nil, fmt.Errorf("explain the plan: %w", err)
		}
		c.onPlan(query, steps)
	}
	return st, nil
}

// plan returns how SQLite runs a statement.
func (c *sqliteConn) plan(query string) (steps []string, err error) {
	unbound := make([]any, 200) // more than any statement has
	rows, err := c.conn.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+query, unbound...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int64
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, rows.Err()
}

func (c *sqliteConn) exec(ctx context.Context, query string, args ...any) (Result, error) {
	st, err := c.statement(query)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return c.conn.ExecContext(ctx, query, args...)
	}
	res, err := st.ExecContext(ctx, args...)
	if isInUse(err) {
		return c.conn.ExecContext(ctx, query, args...)
	}
	return res, err
}

func (c *sqliteConn) query(ctx context.Context, query string, args ...any) (Rows, error) {
	st, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	if st != nil {
		rows, err := st.QueryContext(ctx, args...)
		if err == nil {
			return rows, nil
		}
		if !isInUse(err) {
			return nil, err
		}
	}
	rows, err := c.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err // a nil *sql.Rows would be a Rows that is not nil
	}
	return rows, nil
}

func (c *sqliteConn) queryRow(ctx context.Context, query string, args ...any) Row {
	st, err := c.statement(query)
	if err != nil || st == nil {
		return c.conn.QueryRowContext(ctx, query, args...)
	}
	row := st.QueryRowContext(ctx, args...)
	if isInUse(row.Err()) {
		return c.conn.QueryRowContext(ctx, query, args...)
	}
	return row
}

// isInUse reports whether a cached statement could not run because a caller further
// up the stack still reads its rows.
func isInUse(err error) bool { return isCode(err, sqlite3.SQLITE_MISUSE) }

func isSQLiteError(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e)
}

// isSQLiteFull reports whether SQLite cannot write because the disk is full, or cannot
// create the file that its connections share.
func isSQLiteFull(err error) bool {
	return isCode(err, sqlite3.SQLITE_FULL) || isCode(err, sqlite3.SQLITE_IOERR_SHMSIZE)
}

// writeFault wraps an error of a write. A full disk is [syscall.ENOSPC]. It and a lock of another
// program have a message that says what to do.
func writeFault(err error) error {
	if isFull(err) {
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %w", syscall.ENOSPC, err), "The disk is full: free some space.")
	}
	if isCode(err, sqlite3.SQLITE_BUSY) {
		return &fault.Error{
			Kind: fault.Unavailable, Code: "database_locked", Err: err,
			Message: "Another program, such as sqlite3 or a backup, has locked the database file " + FileName + ". End that program, or wait for its end.",
		}
	}
	return fault.Wrap(fault.Unavailable, err, "The database cannot be written.")
}

// isCode reports whether an error is the SQLite error with a code.
func isCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == code
}
