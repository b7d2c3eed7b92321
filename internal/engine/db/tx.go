package db

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Tx is a transaction of the writer. It must not be used after its closure returned.
type Tx struct {
	d     *DB
	conn  conn
	now   time.Time
	ended bool
	// repeated is true if the group has failed before, and its closures run one by one.
	repeated      bool
	numbers       map[string]int64 // the last numbers of sequences; see [Tx.Next]
	announcing    bool             // [Tx.Ahead] notes its reads; nothing else has an effect
	wrote         bool
	afterCommit   []func()
	afterRollback []func()
}

var errTxEnded = fault.New(fault.Internal, "a transaction was used after its end")

// Query reads within the transaction. The caller must close the rows before its
// closure returns.
func (t *Tx) Query(query string, args ...any) (Rows, error) {
	if t.ended {
		return nil, errTxEnded
	}
	t.noteWrite(query)
	return t.conn.query(context.Background(), query, args...)
}

// QueryRow reads one row within the transaction.
func (t *Tx) QueryRow(query string, args ...any) Row {
	if t.ended {
		return failedRow{errTxEnded}
	}
	t.noteWrite(query)
	return t.conn.queryRow(context.Background(), query, args...)
}

// noteWrite records that a query may write, as INSERT … RETURNING does.
func (t *Tx) noteWrite(query string) { t.wrote = t.wrote || !strings.HasPrefix(query, "SELECT") }

// failedRow is the Row of a query that was not run.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }
func (r failedRow) Err() error        { return r.err }

// Exec writes within the transaction.
func (t *Tx) Exec(query string, args ...any) (Result, error) {
	if t.ended {
		return nil, errTxEnded
	}
	t.wrote = true
	res, err := t.conn.exec(context.Background(), query, args...)
	if isFull(err) {
		err = t.d.engine.classify(err)
	}
	return res, err
}

// ExecExpecting is like Exec and RowsAffected, for a statement that almost always affects want
// rows. On PostgreSQL, it does not wait for the answer: if the number turns out to be another
// one, the server rejects the transaction, and its closures run again and wait. Closures may
// run twice in any case.
func (t *Tx) ExecExpecting(want int64, query string, args ...any) (affected int64, err error) {
	if c, ok := t.conn.(*postgresConn); ok && !t.repeated && !t.ended {
		t.wrote = true
		if plain, ok := plainInsert(query); ok && want == 1 {
			c.plain = true
			_, err = c.exec(context.Background(), plain, args...)
		} else {
			_, err = c.exec(context.Background(), expecting(query), append(slices.Clone(args), want)...)
		}
		return want, err
	}
	res, err := t.Exec(query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// expecting returns a statement that fails unless query affects as many rows as its last
// argument says.
func expecting(query string) string {
	return "WITH done AS (" + query + " RETURNING 1) SELECT lilac_expect((SELECT count(*) FROM done), CAST(? AS BIGINT))"
}

// plainInsert returns an insertion of one row without ON CONFLICT DO NOTHING: it fails where the
// other does nothing, and costs the server a third. ok is false for other statements.
func plainInsert(query string) (plain string, ok bool) {
	plain, conflict, _ := strings.Cut(query, "ON CONFLICT")
	ok = strings.HasPrefix(query, "INSERT") && strings.HasSuffix(conflict, "DO NOTHING") && !strings.Contains(plain, "SELECT")
	return plain, ok
}

// Next returns the number after the last one of a sequence, such as that of the entries of a
// journal. query, with args, returns the last number that is stored; it runs only once in the
// transaction, so all new numbers of the sequence have to come from Next. name names the
// sequence.
func (t *Tx) Next(name, query string, args ...any) (int64, error) {
	n, known := t.numbers[name]
	if !known {
		if err := t.QueryRow(query, args...).Scan(&n); err != nil {
			return 0, err
		}
	}
	if t.numbers == nil {
		t.numbers = make(map[string]int64, 1)
	}
	t.numbers[name] = n + 1
	return n + 1, nil
}

// Now returns the time of the transaction. It is the same for the whole group.
func (t *Tx) Now() time.Time { return t.now }

// Publish writes events into the transaction: they exist exactly if it commits. An
// invalid event fails with an error that names it.
func (t *Tx) Publish(events ...event.Event) error {
	if t.ended {
		return errTxEnded
	}
	if t.announcing {
		return nil
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
		return fault.New(fault.Internal, "events were published before the bus was opened")
	}
	if err := publish(t, events); err != nil {
		return err
	}
	t.d.opt.OnPublish(events)
	return nil
}

// AfterCommit runs fn after the group is committed and synced, under no lock, before
// Update returns. It must be quick and must not call Update.
func (t *Tx) AfterCommit(fn func()) { t.afterCommit = append(t.afterCommit, fn) }

// AfterRollback runs fn if the transaction is rolled back, in reverse order, before
// the writer does anything else. It is for owners of memory that mirrors rows.
func (t *Tx) AfterRollback(fn func()) { t.afterRollback = append(t.afterRollback, fn) }

// rolledBack runs the AfterRollback callbacks and drops all callbacks.
func (t *Tx) rolledBack() {
	for i := len(t.afterRollback) - 1; i >= 0; i-- {
		t.afterRollback[i]()
	}
	t.afterRollback, t.afterCommit = nil, nil
}

// run calls fn and turns a panic into an error, which rolls back fn's work.
func (t *Tx) run(fn func(*Tx) error) (err error) {
	defer func() {
		t.ended = true
		if r := recover(); r != nil {
			err = fault.Wrap(fault.Internal, fmt.Errorf("panic: %v\n%s", r, debug.Stack()), "A write failed inside Lilac.")
		}
	}()
	return fn(t)
}
