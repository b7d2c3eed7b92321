package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// consumer is one Subscribe. Its fields beside the first three belong to the
// group's dispatcher.
type consumer struct {
	sub     bus.Subscription
	handler bus.Handler
	ctx     context.Context

	running  int
	stopping bool
	drained  chan struct{}
}

// run is one attempt of one delivery.
type run struct {
	g       *group
	c       *consumer
	e       *entry
	attempt int
	// told is set by whoever reports the outcome first: the handler that
	// returned, or the one who gave up on it.
	told  atomic.Bool
	acked atomic.Bool
}

// outcome is how a run ended.
type outcome struct {
	run *run
	err error
	// abandoned: the handler has not returned and is not waited for.
	abandoned bool
	// returned: an abandoned handler has come back after all.
	returned bool
}

var (
	errHung   = errors.New("the handler did not return after its time was over")
	errExited = errors.New("the handler ended its goroutine")
)

// do runs the handler and reports what came of it, also when the handler ends
// its goroutine.
func (r *run) handle(rec *Record) {
	ctx, cancel := context.WithTimeout(r.c.ctx, r.c.sub.Timeout)
	hung := time.AfterFunc(r.c.sub.Timeout+r.g.b.opt.Grace, func() { r.abandon(errHung) })
	err := errExited
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		hung.Stop()
		cancel()
		if r.told.CompareAndSwap(false, true) {
			r.g.report(outcome{run: r, err: err})
			return
		}
		r.g.report(outcome{run: r, returned: true})
	}()
	err = r.c.handler(ctx, bus.Delivery{Event: rec.Event, Position: r.g.b.events.Position(rec.Seq), Attempt: r.attempt, Ack: r.ack})
}

func (r *run) abandon(cause error) {
	if r.told.CompareAndSwap(false, true) {
		r.g.report(outcome{run: r, err: cause, abandoned: true})
	}
}

// ack commits the delivery inside tx. It is refused when this attempt has been
// given up, so a handler that comes back late cannot do its work twice.
func (r *run) ack(tx *db.Tx) error {
	res, err := tx.Exec("DELETE FROM bus_pending WHERE grp = ? AND seq = ? AND attempt = ? AND consumer = ?",
		r.g.id, r.e.seq, r.attempt, r.c.sub.Consumer)
	if err != nil {
		return fmt.Errorf("commit delivery: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, &fault.Error{
			Kind: fault.Conflict, Code: "delivery_lost",
			Message: "This delivery was given up or is committed already; its work was not stored.",
		})
	}
	tx.AfterCommit(func() { r.acked.Store(true) })
	return nil
}
