package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Queryer reads; *Tx satisfies it too.
type Queryer interface {
	Query(query string, args ...any) (*sql.Rows, error)
	QueryRow(query string, args ...any) *sql.Row
}

// Read runs fn on a pooled read-only connection in one snapshot.
func (d *DB) Read(ctx context.Context, fn func(q Queryer) error) (err error) {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.entering.Done()
	var s *session
	select {
	case s = <-d.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.readers <- s }()
	if s.conn == nil {
		if s.conn, err = d.readDB.Conn(ctx); err != nil {
			return fmt.Errorf("open reader: %w", err)
		}
	}
	if _, err := s.exec(context.Background(), "BEGIN"); err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	defer func() {
		if _, end := s.exec(context.Background(), "ROLLBACK"); end != nil {
			err = errors.Join(err, fmt.Errorf("end read: %w", end))
		}
	}()
	return fn(reader{ctx, s})
}

type reader struct {
	ctx context.Context
	s   *session
}

// live is the context of one query. A context that can still end costs a
// goroutine for each query, so it is only looked at between queries.
func (r reader) live() context.Context {
	if r.ctx.Err() != nil {
		return r.ctx
	}
	return context.Background()
}

func (r reader) Query(query string, args ...any) (*sql.Rows, error) {
	return r.s.query(r.live(), query, args...)
}

func (r reader) QueryRow(query string, args ...any) *sql.Row {
	return r.s.queryRow(r.live(), query, args...)
}

// enter counts a caller, so that Close waits for it.
func (d *DB) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed()
	}
	d.entering.Add(1)
	return nil
}
