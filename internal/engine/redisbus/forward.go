package redisbus

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"time"

	"lilac/internal/engine/delivery"
)

const (
	// queueMax is the maximum number of queued requests. When the queue is full,
	// publishers block in Publish.
	queueMax = 1024
	// batchEvents is the maximum number of events without rows in one batch. The
	// events of one publisher are never split, so a batch can be larger.
	batchEvents = 512
	// reconnectEvery is the delay between attempts to connect.
	reconnectEvery = 250 * time.Millisecond
)

// publishRequest is a publisher's request to the forwarder. A request without items
// finishes when all rows that were committed before it are sent.
type publishRequest struct {
	items []*item
	err   error         // why the items were not sent
	done  chan struct{} // one slot, so the forwarder never blocks
}

// publishRequests pools requests, because each piece of an answer needs one.
var publishRequests = sync.Pool{New: func() any { return &publishRequest{done: make(chan struct{}, 1)} }}

// finish reports the result to the publisher, which owns the request from then on.
func (p *publishRequest) finish(err error) {
	p.err = err
	p.done <- struct{}{}
}

// release returns the result of a finished request and puts the request back into
// the pool.
func (p *publishRequest) release() error {
	err := p.err
	clear(p.items)
	p.items, p.err = p.items[:0], nil
	publishRequests.Put(p)
	return err
}

// enqueue queues events for the forwarder and waits until Redis has them. It returns
// errAway if Redis is unavailable; Redis may have the events even then.
func (b *Bus) enqueue(ctx context.Context, p *publishRequest) error {
	if b.link.epoch.Load() == 0 {
		return errAway
	}
	select {
	case b.queue <- p: // fast path: a select with one channel is cheaper than one with three
	default:
		b.wakeForwarder()
		select {
		case b.queue <- p:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.ctx.Done():
			return errClosed
		}
	}
	switch {
	case b.closed.Load():
		b.failQueued(errClosed)
	case int64(len(b.queue)) >= b.wakeThreshold.Load():
		b.wakeForwarder()
	}
	select {
	case <-p.done:
		return p.release()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failQueued finishes all requests that are still in the queue.
func (b *Bus) failQueued(err error) {
	for {
		select {
		case p := <-b.queue:
			p.finish(err)
		default:
			return
		}
	}
}

func (b *Bus) wakeForwarder() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// forward runs the forwarder goroutine, which sends all events to Redis.
func (b *Bus) forward() {
	defer b.awaitAcknowledged()
	defer func() {
		b.abandonInFlight()
		failAway(b.waiting)
	}()
	for {
		err := b.ensureUsable(b.ctx)
		if err == nil {
			err = b.sendPending()
		}
		if err == nil && !b.up {
			b.markUp()
		}
		if err != nil && b.ctx.Err() == nil {
			b.markDown(err)
		}
		switch {
		case err != nil:
			failAway(b.waiting)
			b.waiting = nil
			if !b.pause(reconnectEvery) {
				return
			}
		case b.moreRows || len(b.waiting) > 0 && len(b.inFlight) == 0:
		default:
			if !b.waitForWork() {
				return
			}
		}
	}
}

// waitForWork waits until there is work, and reports whether the bus is still open.
func (b *Bus) waitForWork() bool {
	enough := 1
	var answered chan struct{}
	if len(b.inFlight) > 0 {
		enough, answered = max(1, b.pipelineThreshold()-len(b.waiting)), b.inFlight[0].answered
	}
	if len(b.inFlight) == inFlightMax {
		enough = queueMax + 1
	}
	b.wakeThreshold.Swap(int64(enough)) // not Store: len(b.queue) must be read after this write
	if len(b.queue) >= enough {
		return true
	}
	select {
	case <-b.ctx.Done():
		return false
	case <-answered:
	case <-b.wake:
	case <-b.link.doubts:
		if err := b.checkConnection(); err != nil {
			b.markDown(err)
		}
	}
	return true
}

// ensureUsable connects to Redis if necessary and sends the unanswered batch again.
// In a new process, the first pending rows count as unanswered, because an earlier
// process may have sent them just before it was killed. They are sent before any
// reads; see [Bus.resendUnanswered].
func (b *Bus) ensureUsable(ctx context.Context) error {
	if b.up {
		return nil
	}
	err := b.connect(ctx)
	if err != nil {
		return err
	}
	if !b.began {
		if b.unanswered, _, err = b.rows(ctx, chunkBytes, unsentRows); err != nil {
			return err
		}
		b.began = true
	}
	return b.resendUnanswered()
}

const unsentRows = "pos = 0 ORDER BY row"

// pause waits while Redis is unavailable. Publishers get errAway at once. It reports
// whether the bus is still open.
func (b *Bus) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return false
		case <-t.C:
			return true
		case p := <-b.queue:
			p.finish(errAway)
		}
	}
}

func failAway(requests []*publishRequest) {
	for _, p := range requests {
		p.finish(errAway)
	}
}

// markDown records that Redis is unusable. The next connect finds out what Redis
// still has.
func (b *Bus) markDown(err error) {
	b.abandonInFlight()
	b.awaitAcknowledged() // a recovery reads b.newest
	b.up = false
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if errors.Is(err, context.DeadlineExceeded) || untrusted {
		b.work.Go(b.link.drop()) // the connection may be half open, or the client may use outdated CAs
	}
	b.link.epoch.Store(0)
	if b.link.set(err) {
		b.log.Error("redis cannot be used; events are kept until it can", "server", b.opt.server(), "error", err)
	}
}

func (b *Bus) markUp() {
	b.up = true
	b.link.epoch.Store(b.epoch)
	if b.link.set(nil) {
		b.log.Info("redis can be used", "server", b.opt.server(), "epoch", b.epoch)
	}
	b.moreRows = true
	b.Refresh()
}

// checkConnection checks whether Redis is reachable and still has all acknowledged
// batches. There is no periodic check: reads and [Bus.Healthy] notice a problem and
// signal link.doubts.
func (b *Bus) checkConnection() error {
	c, err := b.link.look(b.ctx)
	if err != nil {
		return b.unreachable(err)
	}
	if !c.whole(b.epoch, b.link.acked.Load()) {
		return errNotWhole
	}
	return nil
}

// sendPending sends rows first and queued requests after them, so that an event that
// was queued after a commit follows the events of that commit.
func (b *Bus) sendPending() error {
	b.waiting = b.rejectHandled(b.takeQueued(b.waiting))
	if b.up && !b.moreRows && b.unsent.Load() == 0 && b.concurrency > 1 {
		return b.pipeline()
	}
	if err := b.ackAll(); err != nil {
		return err
	}
	var items []*item
	var more bool
	if b.moreRows || b.unsent.Load() > 0 {
		var err error
		if items, more, err = b.rows(b.ctx, b.sizer.limit(chunkBytes), unsentRows); err != nil {
			return err
		}
	}
	b.moreRows = more
	var done []*publishRequest
	if !more { // this batch has all rows that were committed before the requests
		items, done = b.fill(items)
	}
	b.noteConcurrency(len(done))
	if err := b.deliver(items, done, false); err != nil {
		failAway(done)
		return err
	}
	return nil
}

// fill moves waiting requests into a batch, up to the size limits of a batch.
func (b *Bus) fill(items []*item) ([]*item, []*publishRequest) {
	n, size := 0, 0
	for _, p := range b.waiting {
		if n > 0 && (len(items)+len(p.items) > batchEvents+rowsChunk || size > b.sizer.limit(chunkBytes)) {
			break
		}
		for _, it := range p.items {
			size += it.size()
		}
		items = append(items, p.items...)
		n++
	}
	done := b.waiting[:n]
	b.waiting = slices.Clone(b.waiting[n:])
	return items, done
}

// deliver sends a batch, waits for the reply and acknowledges the batch. For careful,
// see [Bus.send].
func (b *Bus) deliver(items []*item, done []*publishRequest, careful bool) error {
	if len(items) > 0 {
		b.batch++
		if err := b.send(b.ctx, items, b.link.acked.Load(), b.batch, careful); err != nil {
			b.unanswered = items
			return err
		}
		b.link.acked.Store(b.batch)
	}
	b.acknowledge(items, done, b.link.acked.Load())
	return nil
}

// resendUnanswered sends the items whose reply was lost again, before any reads:
// Redis may have their events. If a reader had read such an event and Redis then lost
// it, the event would later appear again at another position. The publishers got
// errAway and wrote rows; when those rows are sent, Redis already has their ids.
func (b *Bus) resendUnanswered() error {
	for all := b.unanswered; len(all) > 0; {
		part, rest := b.cutBatch(all)
		if err := b.deliver(part, nil, true); err != nil {
			b.unanswered = all
			return err
		}
		all = rest
	}
	b.unanswered = nil
	return nil
}

// acknowledge announces batches in order: it feeds groups and tails, and finishes the
// publishers' requests. If several publishers wait, it does so in the background while
// Redis works on the next batch. It marks rows synchronously, because the next call of
// sendPending reads the unmarked ones.
func (b *Bus) acknowledge(items []*item, done []*publishRequest, number int64) {
	b.settling.Lock()
	tell := func() {
		defer b.settling.Unlock()
		b.announce(items, number)
		for _, p := range done {
			p.finish(nil)
		}
	}
	if rows, outputs := b.unmarked(items); len(rows)+len(outputs) > 0 {
		tell()
		if err := b.mark(rows, outputs); err != nil {
			b.log.Error("outgoing rows are sent again", "error", err)
			b.moreRows = false // retry with the next event, not in a busy loop
		}
	} else if len(done) == 1 {
		tell()
	} else {
		b.work.Go(tell)
	}
}

// awaitAcknowledged waits until the last batch is announced.
func (b *Bus) awaitAcknowledged() {
	b.settling.Lock()
	defer b.settling.Unlock()
}

// rejectHandled fails requests for topics that got their first group after the
// publisher checked. The publisher then writes rows, so no event of a handled topic is
// in Redis alone.
func (b *Bus) rejectHandled(held []*publishRequest) []*publishRequest {
	return slices.DeleteFunc(held, func(p *publishRequest) bool {
		late := slices.ContainsFunc(p.items, func(it *item) bool { return b.isHandled(it.topic) })
		if late {
			p.finish(errAway)
		}
		return late
	})
}

func (b *Bus) takeQueued(held []*publishRequest) []*publishRequest {
	for len(held) < queueMax {
		select {
		case p := <-b.queue:
			held = append(held, p)
		default:
			return held
		}
	}
	return held
}

// announce feeds an acknowledged batch to groups and tails, and keeps it in b.recent.
func (b *Bus) announce(items []*item, batch int64) {
	records := make([]*delivery.Record, len(items))
	for i, it := range items {
		records[i] = it.record
		records[i].Seq = it.pos
		it.batch = batch
		if it.output == nil {
			b.newest[it.topic] = max(b.newest[it.topic], it.pos)
		}
	}
	b.recent.add(items, batch, b.now())
	b.Feed(records)
}
