package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/fault"
)

// update is one call of Update or UpdateRelaxed.
type update struct {
	fn      func(*Tx) error
	relaxed bool
	// lazy lets it wait for another update; see UpdateLazy.
	lazy bool
	// claimed is set by the writer when it runs the update, or by the caller when it
	// stops waiting: the first one decides.
	claimed atomic.Bool
	tx      *Tx
	err     error
	done    chan struct{}
}

// Update runs fn in the writer, in a group with the other updates that wait, and
// returns when the group is synced to disk. An error of fn rolls back fn's work alone.
//
// fn must not call Update or Read and must not do I/O outside the transaction. It may
// run twice: if another closure of its group fails after it wrote, the group is rolled
// back and repeated. If ctx ends before fn has begun, fn does not run; after that,
// Update waits for the outcome.
func (d *DB) Update(ctx context.Context, fn func(tx *Tx) error) error {
	return d.submit(ctx, &update{fn: fn, done: make(chan struct{})})
}

// UpdateRelaxed is like Update, but does not wait for the disk: its writes survive
// kill -9, but possibly not a power failure. Use it for attempt counters, heartbeats
// and cursors.
func (d *DB) UpdateRelaxed(ctx context.Context, fn func(tx *Tx) error) error {
	return d.submit(ctx, &update{fn: fn, relaxed: true, done: make(chan struct{})})
}

// lazyFor is how long an update of [DB.UpdateLazy] waits for another update.
const lazyFor = 5 * time.Millisecond

// UpdateLazy is like UpdateRelaxed, for writes that nothing waits for: it joins the next group,
// or runs after 5 ms if there is none, or at once when hurry is readable. Otherwise, such writes
// would stand between the commits of a piece of work. hurried reports that it read from hurry.
func (d *DB) UpdateLazy(hurry <-chan struct{}, fn func(tx *Tx) error) (hurried bool, err error) {
	u := &update{fn: fn, relaxed: true, lazy: true, done: make(chan struct{})}
	if err := d.enter(); err != nil {
		return false, err
	}
	defer d.callers.Done()
	d.queue <- u
	select {
	case <-u.done:
		return false, u.err
	case <-hurry:
	}
	select {
	case d.hurry <- struct{}{}:
	default: // one signal is pending already
	}
	<-u.done
	return true, u.err
}

// errRepeat asks for the group to be repeated with one savepoint per closure.
var errRepeat = errors.New("a closure without a savepoint failed after it may have written")

func (d *DB) submit(ctx context.Context, u *update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.callers.Done()
	select {
	case d.queue <- u:
	case <-ctx.Done():
		return waitedFor(ctx)
	}
	select {
	case <-u.done:
		return u.err
	case <-ctx.Done():
		if u.claimed.CompareAndSwap(false, true) {
			return waitedFor(ctx)
		}
		<-u.done
		return u.err
	}
}

// runWriter commits groups until the queue is closed and empty.
func (d *DB) runWriter() {
	defer d.goroutines.Done()
	defer close(d.committed)
	for first := range d.queue {
		// The callers that the last commit released are about to submit again. Letting
		// them run first makes one group of them.
		runtime.Gosched()
		group := d.collect(first)
		if len(group) == 0 {
			continue
		}
		d.commit(group)
		if len(d.queue) == 0 && d.notifying.Load() == 0 {
			d.notify(group) // nothing waits: a switch to the notifier would only add delay
			continue
		}
		d.notifying.Add(1)
		d.committed <- group
	}
}

// collect returns the updates that wait, at most groupMax, without those whose callers
// stopped waiting. If nothing waits for any of them, it waits for more.
func (d *DB) collect(first *update) []*update {
	group := make([]*update, 0, min(len(d.queue)+1, groupMax))
	lazy := true
	var over <-chan time.Time
	for u := first; ; {
		if u.claimed.CompareAndSwap(false, true) {
			group, lazy = append(group, u), lazy && u.lazy
		}
		if len(group) == groupMax {
			return group
		}
		var ok bool
		select {
		case u, ok = <-d.queue:
			if !ok {
				return group
			}
			continue
		default:
		}
		if !lazy || len(group) == 0 {
			return group
		}
		if over == nil {
			over = time.After(lazyFor)
		}
		select {
		case u, ok = <-d.queue:
			if !ok {
				return group
			}
		case <-d.hurry:
			return group
		case <-over:
			return group
		}
	}
}

// repeatMax bounds how often a group is repeated after failures that may pass, such as a
// lost connection.
const repeatMax = 3

// commit runs a group in one transaction. An error of a closure is returned to its
// caller alone; an error of the commit is returned to all callers.
func (d *DB) commit(group []*update) {
	if err := d.resolve(); err != nil {
		d.fail(group, err)
		return
	}
	err := d.tryCommit(group, false)
	for n := 0; n < repeatMax && (errors.Is(err, errRepeat) || d.engine.transient(err)); n++ {
		if len(group) == 1 && group[0].err != nil && !d.engine.transient(group[0].err) {
			explained := d.explain(group[0].err)
			if !IsEngineError(explained) || fault.KindOf(explained) != fault.Unavailable {
				return // rolled back, and nothing else was in the group; it says nothing about the disk
			}
			err = explained // a read of the closure found that the database cannot be reached or used
			break
		}
		err = d.tryCommit(group, true)
	}
	switch {
	case errors.Is(err, errOutcomeUnknown):
		d.unresolved = group
	case errors.Is(err, errRepeat):
		err = d.engine.classify(group[0].err)
	}
	if err != nil {
		d.fail(group, err)
		return
	}
	d.mu.Lock()
	d.commitErr, d.lastCommit = nil, d.opt.Now()
	d.mu.Unlock()
}

// fail returns an error of the commit to all callers of a group.
func (d *DB) fail(group []*update, err error) {
	if isFull(err) {
		d.full.Store(&err)
	}
	d.mu.Lock()
	d.commitErr = err
	d.mu.Unlock()
	if message := fault.ToWire(err).Message; message != d.logged || time.Since(d.loggedAt) > logFailures {
		d.opt.Logger.Error("commit failed", "error", err, "group", len(group))
		d.logged, d.loggedAt = message, time.Now()
	}
	for _, u := range group {
		if u.tx != nil && !errors.Is(err, errOutcomeUnknown) {
			u.tx.rolledBack()
		}
		if u.err == nil || IsEngineError(u.err) { // the reason for which the whole group failed
			u.err = err
		}
	}
}

// logFailures is how often the log repeats that commits fail for the same reason.
const logFailures = 10 * time.Second

// resolve finds out what became of a group whose connection was lost during its COMMIT,
// and runs its callbacks. Nothing else is written before that, because the memory of
// owners of rows depends on it.
func (d *DB) resolve() error {
	if d.unresolved == nil {
		return nil
	}
	committed, err := d.engine.outcome()
	if err != nil {
		return d.engine.classify(err)
	}
	for _, u := range d.unresolved {
		switch {
		case !committed:
			u.tx.rolledBack()
		case errors.Is(u.err, errOutcomeUnknown): // its closure succeeded
			for _, fn := range u.tx.afterCommit {
				runCallback(d.opt.Logger, fn)
			}
		}
	}
	d.opt.Logger.Warn("found the outcome of a commit whose connection was lost", "committed", committed, "group", len(d.unresolved))
	d.unresolved = nil
	return nil
}

// tryCommit runs the closures and commits. The first try runs them without savepoints: those are a quarter of the work of a small insert, because each copies
// the pages that change, and closures rarely fail once they have written.
func (d *DB) tryCommit(group []*update, repeated bool) error {
	run := d.runBare
	if repeated {
		run = d.runSaved
	}
	if err := d.engine.begin(relaxed(group)); err != nil {
		return d.engine.classify(err)
	}
	now, c := d.opt.Now(), d.engine.writer()
	for _, u := range group {
		u.tx, u.err = &Tx{d: d, conn: c, now: now, repeated: repeated}, nil
		if err := run(u); err != nil {
			d.rollback(group)
			return err
		}
	}
	if err := d.engine.checkLocation(); err != nil {
		d.rollback(group)
		return err
	}
	d.opt.OnCommit(false)
	err := d.engine.commit()
	switch {
	case err == nil:
		d.opt.OnCommit(true)
		return nil
	case errors.Is(err, errOutcomeUnknown):
		return d.engine.classify(err)
	}
	d.rollback(group)
	if errors.Is(err, errStatement) {
		if len(group) == 1 {
			group[0].err = d.explain(err)
		}
		return errRepeat
	}
	return d.engine.classify(err)
}

// explain returns the fault of an engine's error that has its own sentence, such as a full
// disk. It returns other errors, such as that of a duplicate key, as they are.
func (d *DB) explain(err error) error {
	if !IsEngineError(err) {
		return err
	}
	if explained := d.engine.classify(err); isFull(err) || fault.ToWire(explained).Code != "" {
		return explained
	}
	return err
}

// runBare runs a closure without a savepoint. If the closure failed before it wrote,
// the error is its own. Any other failure repeats the group. So does an error of the
// engine, which may have ended the transaction of the whole group (for example, if a
// page cannot be read): the writes of the next closure would otherwise be committed on
// their own.
func (d *DB) runBare(u *update) error {
	if u.err = u.tx.run(u.fn); u.err == nil {
		return nil
	}
	if u.tx.wrote || IsEngineError(u.err) {
		return errRepeat
	}
	u.tx.rolledBack()
	return nil
}

// runSaved runs a closure in a savepoint. It returns an error of the transaction, not
// of the closure.
func (d *DB) runSaved(u *update) error {
	if err := d.control("SAVEPOINT one"); err != nil {
		return err
	}
	u.err = u.tx.run(u.fn)
	if err := u.tx.conn.flush(); u.err == nil {
		u.err = err
	}
	if u.err != nil {
		u.err = d.explain(u.err)
		if isFull(u.err) {
			full := u.err // fail may replace it
			d.full.Store(&full)
		}
		if err := d.control("ROLLBACK TO SAVEPOINT one"); err != nil {
			if isFull(u.err) { // SQLite has ended the transaction with it
				return u.err
			}
			return err
		}
		u.tx.rolledBack()
	}
	return d.control("RELEASE SAVEPOINT one")
}

// rollback rolls the group back and runs its AfterRollback callbacks, newest first.
func (d *DB) rollback(group []*update) {
	for i := len(group) - 1; i >= 0; i-- {
		if group[i].tx != nil {
			group[i].tx.rolledBack()
		}
	}
	d.engine.rollback()
}

// relaxed reports whether no update of a group has to wait for the disk.
func relaxed(group []*update) bool {
	for _, u := range group {
		if !u.relaxed {
			return false
		}
	}
	return true
}

// control runs a statement for a savepoint.
func (d *DB) control(statement string) error {
	if _, err := d.engine.writer().exec(context.Background(), statement); err != nil {
		return d.engine.classify(fmt.Errorf("%s: %w", statement, err))
	}
	return nil
}

// runNotifier notifies the callers of committed groups in the order of the commits.
func (d *DB) runNotifier() {
	defer d.goroutines.Done()
	for group := range d.committed {
		d.notify(group)
		d.notifying.Add(-1)
	}
}

// notify runs the AfterCommit callbacks of a group and releases its callers.
func (d *DB) notify(group []*update) {
	for _, u := range group {
		if u.err == nil && u.tx != nil {
			for _, fn := range u.tx.afterCommit {
				runCallback(d.opt.Logger, fn)
			}
		}
		close(u.done)
	}
}

func runCallback(logger *slog.Logger, fn func()) {
	defer func() {
		if r := recover(); r != nil {
			logger.Error("callback after a commit panicked", "panic", fmt.Sprint(r))
		}
	}()
	fn()
}
