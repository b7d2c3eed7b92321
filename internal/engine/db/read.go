package db

import (
	"context"
	"errors"
	"fmt"
)

// read is one call of Read.
type read struct {
	ctx context.Context
	fn  func(q Queryer) error
	err error
	// panicked is the value that fn panicked with; Read panics with it again.
	panicked any
	done     chan struct{}
}

var errGoroutineEnded = errors.New("a read ended its goroutine")

// Read runs fn in one snapshot on one of the reader goroutines. They exist because
// SQLite needs a deep stack, which thousands of callers would otherwise each grow and
// keep.
func (d *DB) Read(ctx context.Context, fn func(q Queryer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.callers.Done()
	d.opt.OnRead()
	r := &read{ctx: ctx, fn: fn, err: errGoroutineEnded, done: make(chan struct{})}
	select {
	case d.reads <- r:
	case <-ctx.Done():
		return waitedFor(ctx)
	}
	<-r.done
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

// runReader serves reads on one connection until the database closes.
func (d *DB) runReader(c conn) {
	closing := false
	defer func() {
		if !closing { // fn called runtime.Goexit; the connection is still good
			go d.runReader(c)
			return
		}
		if c != nil {
			if err := c.close(); err != nil {
				d.opt.Logger.Error("cannot close a reader", "error", err)
			}
		}
		d.goroutines.Done()
	}()
	for r := range d.reads {
		d.serveRead(&c, r)
	}
	closing = true
}

func (d *DB) serveRead(c *conn, r *read) {
	defer close(r.done)
	defer func() { r.panicked = recover() }()
	r.err = d.readOn(c, r)
}

func (d *DB) readOn(c *conn, r *read) (err error) {
	if *c == nil {
		if *c, err = d.engine.openReader(r.ctx); err != nil {
			return fmt.Errorf("open reader: %w", err)
		}
	}
	if err := (*c).beginRead(r.ctx); err != nil {
		return fmt.Errorf("begin read: %w", err)
	}
	defer func() {
		if end := (*c).endRead(); end != nil {
			err = errors.Join(err, fmt.Errorf("end read: %w", end))
		}
	}()
	return d.explain(r.fn(reader{r.ctx, *c}))
}

// reader is the Queryer of one read.
type reader struct {
	ctx  context.Context
	conn conn
}

// queryContext checks the context between queries only: database/sql starts a
// goroutine for each query whose context can end.
func (r reader) queryContext() context.Context {
	if r.ctx.Err() != nil {
		return r.ctx
	}
	return context.Background()
}

func (r reader) Query(query string, args ...any) (Rows, error) {
	return r.conn.query(r.queryContext(), query, args...)
}

func (r reader) QueryRow(query string, args ...any) Row {
	return r.conn.queryRow(r.queryContext(), query, args...)
}
