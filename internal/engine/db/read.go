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

// read is one call of Read on its way through a reader.
type read struct {
	ctx context.Context
	fn  func(q Queryer) error
	err error
	// panicked is what fn panicked with; it goes on in the caller.
	panicked any
	done     chan struct{}
}

var errReadEnded = errors.New("a read ended its goroutine")

// Read runs fn in one snapshot, on one of the readers: each is a goroutine
// with a read-only connection. SQLite needs a deep stack, which thousands of
// callers would otherwise each grow and keep.
func (d *DB) Read(ctx context.Context, fn func(q Queryer) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	defer d.entering.Done()
	r := &read{ctx: ctx, fn: fn, err: errReadEnded, done: make(chan struct{})}
	select {
	case d.reads <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-r.done
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

// serveReads is one reader.
func (d *DB) serveReads(s *session) {
	ended := false
	defer func() {
		if !ended { // fn ended the goroutine; the connection is still good
			go d.serveReads(s)
			return
		}
		if err := s.close(); err != nil {
			d.opt.Logger.Error("close reader", "error", err)
		}
		d.done.Done()
	}()
	for r := range d.reads {
		d.serveRead(s, r)
	}
	ended = true
}

func (d *DB) serveRead(s *session, r *read) {
	defer close(r.done)
	defer func() { r.panicked = recover() }()
	r.err = d.readWith(s, r)
}

func (d *DB) readWith(s *session, r *read) (err error) {
	if s.conn == nil {
		if s.conn, err = d.readDB.Conn(r.ctx); err != nil {
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
	return r.fn(reader{r.ctx, s})
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
