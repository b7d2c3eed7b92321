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

// statementsMax bounds the cached statements of a connection. Queries are
// written in the source, so there are fewer; made-up ones must not pile up.
const statementsMax = 400

// session is one connection with its prepared statements.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func newSession(conn *sql.Conn) *session {
	return &session{conn: conn, stmts: make(map[string]*sql.Stmt)}
}

func (s *session) close() error {
	if s.conn == nil {
		return nil
	}
	for _, st := range s.stmts {
		st.Close()
	}
	return s.conn.Close()
}

// statement returns the cached statement of a query, or nil when it is not to
// be cached.
func (s *session) statement(query string) (*sql.Stmt, error) {
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	if len(s.stmts) >= statementsMax {
		return nil, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

func (s *session) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := s.statement(query)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return s.conn.ExecContext(ctx, query, args...)
	}
	res, err := st.ExecContext(ctx, args...)
	if inUseAlready(err) {
		return s.conn.ExecContext(ctx, query, args...)
	}
	return res, err
}

func (s *session) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.statement(query)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return s.conn.QueryContext(ctx, query, args...)
	}
	rows, err := st.QueryContext(ctx, args...)
	if inUseAlready(err) {
		return s.conn.QueryContext(ctx, query, args...)
	}
	return rows, err
}

func (s *session) queryRow(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := s.statement(query)
	if err != nil || st == nil {
		return s.conn.QueryRowContext(ctx, query, args...)
	}
	row := st.QueryRowContext(ctx, args...)
	if inUseAlready(row.Err()) {
		return s.conn.QueryRowContext(ctx, query, args...)
	}
	return row
}

// inUseAlready recognises a cached statement whose rows are still being read
// further up the stack.
func inUseAlready(err error) bool { return isCode(err, sqlite3.SQLITE_MISUSE) }

// IsFailure reports whether an error is SQLite's, which may have ended the
// transaction by itself: a closure that went on would write outside of it.
func IsFailure(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e)
}

// isFull reports whether an error is that of a disk without room: SQLite then
// cannot write, or cannot make the file that its connections share.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || isCode(err, sqlite3.SQLITE_FULL) || isCode(err, sqlite3.SQLITE_IOERR_SHMSIZE)
}

// unwritten is the fault of what could not be written, and says why if people
// can do something about it. A full disk is [syscall.ENOSPC].
func unwritten(err error) error {
	if isFull(err) {
		return fault.Wrap(fault.Unavailable, fmt.Errorf("%w: %w", syscall.ENOSPC, err), "The disk is full: free some space.")
	}
	return fault.Wrap(fault.Unavailable, err, "The database cannot be written.")
}

// isCode reports whether an error is the one of SQLite with this code.
func isCode(err error, code int) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == code
}
