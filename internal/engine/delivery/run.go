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

// A consumer is one call of Subscribe. The dispatcher of the group owns all fields
// but the first three.
type consumer struct {
	sub     bus.Subscription
	handler bus.Handler
	ctx     context.Context

	running  int
	stopping bool
	drained  chan struct{}
}

// A run is one attempt of one delivery.
type run struct {
	g       *group
	c       *consumer
	e       *entry
	attempt int
	// reported is set by the first reporter of the outcome: the handler that returned,
	// or abandon.
	reported atomic.Bool
	acked    atomic.Bool
}

// outcome is how a run ended.
type outcome struct {
	run *run
	err error
	// abandoned means that the handler has not returned and nothing waits for it.
	abandoned bool
	// returned means that an abandoned handler returned after all.
	returned bool
}

var (
	errHung   = errors.New("the handler did not return in time")
	errExited = errors.New("the handler ended its goroutine")
)

// handle runs the handler and reports the outcome, even if the handler ends its
// goroutine.
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
		if r.reported.CompareAndSwap(false, true) {
			r.g.report(outcome{run: r, err: err})
			return
		}
		r.g.report(outcome{run: r, returned: true})
	}()
	err = r.c.handler(ctx, bus.Delivery{Event: rec.Event, Position: r.g.b.events.Position(rec.Seq), Attempt: r.attempt, Ack: r.ack})
}

func (r *run) abandon(cause error) {
	if r.reported.CompareAndSwap(false, true) {
		r.g.report(outcome{run: r, err: cause, abandoned: true})
	}
}

// ack commits the delivery inside tx. It is refused when this attempt has been
// abandoned, so a handler that returns late cannot commit its work twice.
func (r *run) ack(tx *db.Tx) error {
	n, err := tx.ExecExpecting(1, "DELETE FROM bus_pending WHERE grp = ? AND seq = ? AND attempt = ? AND consumer = ?",
		r.g.id, r.e.seq, r.attempt, r.c.sub.Consumer)
	if err != nil {
		return fmt.Errorf("commit delivery: %w", err)
	}
	if n == 0 {
		return &fault.Error{
			Kind: fault.Conflict, Code: "delivery_lost",
			Message: "This delivery was given up or is committed already; its work was not stored.",
		}
	}
	tx.AfterCommit(func() { r.acked.Store(true) })
	return nil
}
