package db

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
)

// request is one closure on its way through the writer.
type request struct {
	fn      func(*Tx) error
	relaxed bool
	// taken is set by whoever decides its fate: the writer that runs it or
	// the caller that gives up waiting.
	taken atomic.Bool
	tx    *Tx
	err   error
	done  chan struct{}
}

// Update runs fn in the writer, grouped with what else waits, and returns when
// the group is synced to disk. An error of fn rolls back fn's work alone.
// fn must not call Update or Read, must not do I/O beyond the transaction, and
// may be run again: when a neighbour in its group fails after it wrote, the
// group is rolled back and repeated. If ctx ends before fn was begun, fn does
// not run; afterwards the outcome is waited for.
func (d *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return d.submit(ctx, &request{fn: fn, done: make(chan struct{})})
}

// UpdateRelaxed is Update without the wait for the disk: what it writes
// survives kill -9 but maybe not a power cut. For counters of attempts,
// heartbeats and read positions.
func (d *DB) UpdateRelaxed(ctx context.Context, fn func(tx *Tx) error) error {
	return d.submit(ctx, &request{fn: fn, relaxed: true, done: make(chan struct{})})
}

// errRepeat asks for the group to be run again, each closure in a savepoint.
var errRepeat = errors.New("a closure without a savepoint failed, and not alone")

func (d *DB) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.entering.Done()
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		if r.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-r.done
		return r.err
	}
}

// write is the one writer. It ends when the queue is closed and empty.
func (d *DB) write() {
	defer d.done.Done()
	defer close(d.finished)
	for first := range d.queue {
		// Callers that were woken by the last commit are about to come back;
		// letting them run first makes one group of them.
		runtime.Gosched()
		group := d.collect(first)
		if len(group) == 0 {
			continue
		}
		d.commit(group)
		if len(d.queue) == 0 && d.unfinished.Load() == 0 {
			d.tell(group) // nothing waits: another goroutine would only come later
			continue
		}
		d.unfinished.Add(1)
		d.finished <- group
	}
}

func (d *DB) collect(first *request) []*request {
	group := make([]*request, 0, min(len(d.queue)+1, groupMax))
	for r := first; ; {
		if r.taken.CompareAndSwap(false, true) {
			group = append(group, r)
		}
		if len(group) == groupMax {
			return group
		}
		var ok bool
		select {
		case r, ok = <-d.queue:
			if !ok {
				return group
			}
		default:
			return group
		}
	}
}

// commit runs a group in one transaction. What a closure returned stays its
// own; if the commit itself fails, that is everybody's error.
func (d *DB) commit(group []*request) {
	err := d.tryCommit(group, false)
	switch {
	case !errors.Is(err, errRepeat):
	case len(group) == 1:
		return // rolled back already, and nobody else was; it says nothing of the disk
	default:
		err = d.tryCommit(group, true)
	}
	d.mu.Lock()
	d.lastErr = err
	if err == nil {
		d.committed = d.opt.Now()
	}
	d.mu.Unlock()
	if err == nil {
		return
	}
	d.opt.Logger.Error("commit failed", "error", err, "group", len(group))
	for _, r := range group {
		if r.tx != nil {
			r.tx.rolledBack()
		}
		if r.err == nil {
			r.err = err
		}
	}
}

// tryCommit runs the closures and commits. Savepoints are a quarter of the work
// of a small insert, since each copies the pages that change, and closures
// hardly ever fail once they have written; so the first try is without them.
func (d *DB) tryCommit(group []*request, savepoints bool) error {
	if err := d.setSync(group); err != nil {
		return err
	}
	if err := d.control("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	now := d.opt.Now()
	for _, r := range group {
		r.tx, r.err = &Tx{d: d, now: now}, nil
		run := d.runBare
		if savepoints {
			run = d.runSaved
		}
		if err := run(r); err != nil {
			d.rollback(group)
			return err
		}
	}
	if err := d.inPlace(); err != nil {
		d.rollback(group)
		return err
	}
	d.opt.OnCommit(false)
	if err := d.control("COMMIT"); err != nil {
		d.rollback(group)
		return err
	}
	d.opt.OnCommit(true)
	return nil
}

// runBare runs a closure without a savepoint. A failure that wrote nothing is
// the closure's own; any other one needs the group to be repeated. So does one of
// SQLite, which may have ended the transaction of all, by a disk that cannot be
// read: what the next closure writes would stay, whatever becomes of the group.
func (d *DB) runBare(r *request) error {
	if r.err = r.tx.run(r.fn); r.err == nil {
		return nil
	}
	if r.tx.wrote || IsFailure(r.err) {
		return errRepeat
	}
	r.tx.rolledBack()
	return nil
}

// runSaved runs a closure in its savepoint. What it returns is a failure of the
// transaction, not of the closure.
func (d *DB) runSaved(r *request) error {
	if err := d.control("SAVEPOINT one"); err != nil {
		return err
	}
	if r.err = r.tx.run(r.fn); r.err != nil {
		if err := d.control("ROLLBACK TO one"); err != nil {
			return err
		}
		r.tx.rolledBack()
	}
	return d.control("RELEASE one")
}

// rollback also forgets the closures' effects in memory, newest first.
func (d *DB) rollback(group []*request) {
	for i := len(group) - 1; i >= 0; i-- {
		if group[i].tx != nil {
			group[i].tx.rolledBack()
		}
	}
	// SQLite has already rolled back after some errors; then this one fails.
	d.control("ROLLBACK")
}

// setSync chooses how the group is committed. The mode can only be changed
// between transactions.
func (d *DB) setSync(group []*request) error {
	relaxed := true
	for _, r := range group {
		relaxed = relaxed && r.relaxed
	}
	if relaxed == d.relaxed {
		return nil
	}
	mode := d.opt.Synchronous
	if relaxed && mode == "FULL" {
		mode = "NORMAL"
	}
	if _, err := d.writer.conn.ExecContext(context.Background(), "PRAGMA synchronous="+mode); err != nil {
		return unwritten(err)
	}
	d.relaxed = relaxed
	return nil
}

func (d *DB) control(statement string) error {
	if _, err := d.writer.exec(context.Background(), statement); err != nil {
		return unwritten(fmt.Errorf("%s: %w", statement, err))
	}
	return nil
}

// finish tells the callers, in the order of the commits, while the writer is
// already busy with the next group.
func (d *DB) finish() {
	defer d.done.Done()
	for group := range d.finished {
		d.tell(group)
		d.unfinished.Add(-1)
	}
}

// tell runs the callbacks of a committed group and wakes its callers.
func (d *DB) tell(group []*request) {
	for _, r := range group {
		if r.err == nil && r.tx != nil {
			d.afterCommit(r.tx)
		}
		close(r.done)
	}
}

func (d *DB) afterCommit(tx *Tx) {
	for _, fn := range tx.commits {
		func() {
			defer func() {
				if r := recover(); r != nil {
					d.opt.Logger.Error("callback after a commit panicked", "panic", fmt.Sprint(r))
				}
			}()
			fn()
		}()
	}
}
