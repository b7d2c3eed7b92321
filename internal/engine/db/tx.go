package db

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Tx is a transaction of the one writer. It must not be used after its closure has returned.
type Tx struct {
	d       *DB
	now     time.Time
	over    bool
	wrote   bool
	commits []func()
	undo    []func()
}

var errTxOver = fault.New(fault.Internal, "a transaction was used after its end")

// Query reads within the transaction. The rows must be closed before the
// closure returns.
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	if t.over {
		return nil, errTxOver
	}
	return t.d.writer.query(context.Background(), query, args...)
}

// QueryRow reads one row within the transaction.
func (t *Tx) QueryRow(query string, args ...any) *sql.Row {
	ctx := context.Background()
	if t.over {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errTxOver)
		ctx = ended
	}
	return t.d.writer.queryRow(ctx, query, args...)
}

// Exec writes within the transaction.
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	if t.over {
		return nil, errTxOver
	}
	t.wrote = true
	res, err := t.d.writer.exec(context.Background(), query, args...)
	if isFull(err) {
		err = unwritten(err)
	}
	return res, err
}

// Now is one time for the whole transaction.
func (t *Tx) Now() time.Time { return t.now }

// Publish writes events into the transaction: they exist exactly when it
// commits. An event that is not valid fails it, naming the event.
func (t *Tx) Publish(events ...event.Event) error {
	if t.over {
		return errTxOver
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	t.d.mu.Lock()
	publish := t.d.publisher
	t.d.mu.Unlock()
	if publish == nil {
		return fault.New(fault.Internal, "events were published before a bus was there")
	}
	if err := publish(t, events); err != nil {
		return err
	}
	t.d.opt.OnPublish(events)
	return nil
}

// AfterCommit runs fn after the group is committed and synced, not under any
// lock, before Update returns. It must be quick and must not call Update.
func (t *Tx) AfterCommit(fn func()) { t.commits = append(t.commits, fn) }

// AfterRollback runs fn when what the transaction wrote is rolled back, in
// reverse order, before the writer does anything else. It is for the owners of
// memory that mirrors rows.
func (t *Tx) AfterRollback(fn func()) { t.undo = append(t.undo, fn) }

func (t *Tx) rolledBack() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.undo, t.commits = nil, nil
}

// run calls fn and turns a panic into an error, which rolls back fn's work.
func (t *Tx) run(fn func(*Tx) error) (err error) {
	defer func() {
		t.over = true
		if r := recover(); r != nil {
			err = fault.Wrap(fault.Internal, fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "A write failed inside Lilac.")
		}
	}()
	return fn(t)
}
