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
	// queueMax bounds what waits to be taken by the forwarder; publishers
	// beyond it wait in Publish.
	queueMax = 1024
	// batchEvents is how many events without rows one batch may hold; a
	// publisher's events are not split.
	batchEvents = 512
	// reconnectEvery is how soon an attempt to connect follows the last one.
	reconnectEvery = 250 * time.Millisecond
)

// publishRequest is what a publisher hands to the forwarder. An empty one is done when
// all rows that were committed before are sent.
type publishRequest struct {
	items []*item
	err   error         // why Redis does not have them
	done  chan struct{} // one slot: the forwarder never waits
}

// publishRequests are used again: each piece of an answer takes one.
var publishRequests = sync.Pool{New: func() any { return &publishRequest{done: make(chan struct{}, 1)} }}

// tell tells the publisher, who owns the parcel from then on.
func (p *publishRequest) finish(err error) {
	p.err = err
	p.done <- struct{}{}
}

// told takes what the publisher was told, and gives the parcel back.
func (p *publishRequest) release() error {
	err := p.err
	clear(p.items)
	p.items, p.err = p.items[:0], nil
	publishRequests.Put(p)
	return err
}

// hand gives events to the forwarder and waits until Redis has them. It returns
// errAway when Redis is not there; the events may have arrived even so.
func (b *Bus) enqueue(ctx context.Context, p *publishRequest) error {
	if b.link.epoch.Load() == 0 {
		return errAway
	}
	select {
	case b.queue <- p: // there is room, but for a crowd: to look at one channel is cheaper
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

// drain tells those whose parcels nobody has taken.
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

// forward is the goroutine that everything goes through on its way to Redis.
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

// rest waits until there is something to do, and reports whether the bus is still open.
func (b *Bus) waitForWork() bool {
	enough := 1
	var answered chan struct{}
	if len(b.inFlight) > 0 {
		enough, answered = max(1, b.pipelineThreshold()-len(b.waiting)), b.inFlight[0].answered
	}
	if len(b.inFlight) == inFlightMax {
		enough = queueMax + 1
	}
	b.wakeThreshold.Swap(int64(enough)) // not Store: what follows must not be read before it
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

// reach makes Redis usable if it is not, up to the batch that comes next. The first one
// of this process is sent before anybody reads, as [Bus.resendUnanswered] does: it may be the one
// that an earlier process sent when it was killed.
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

// pause waits while Redis is away; who hands something over is told at once.
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

// lose notes that Redis cannot be used; connecting again finds out what of it
// is left.
func (b *Bus) markDown(err error) {
	b.abandonInFlight()
	b.awaitAcknowledged() // a restoration needs to know what was sent last
	b.up = false
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if errors.Is(err, context.DeadlineExceeded) || untrusted {
		b.work.Go(b.link.drop()) // it may be half open, or know authorities of before
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

// look finds out whether Redis went away or forgot while nothing was sent. Nobody
// asks all the time: who reads notices it, and so does who wants to know whether
// the bus works ([Bus.Healthy]).
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

// turn does what there is to do: rows first, then what was handed over, so that an event
// which was handed over after a commit follows that commit's.
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
	if !more { // all rows that were committed before are in this batch
		items, done = b.fill(items)
	}
	b.noteConcurrency(len(done))
	if err := b.deliver(items, done, false); err != nil {
		failAway(done)
		return err
	}
	return nil
}

// fill adds what was handed over to a batch, as much as it may hold.
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

// deliver sends a batch, waits for the answer and tells who is concerned. careful is as in
// [Bus.send].
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

// scriptReply sends the batch again whose answer got lost, before anybody may read: its
// events may be in Redis, and whoever had read one that Redis lost before it was
// told of would get it again, at another place. Those who published it were
// told that Redis is away and write rows, which are found to be there then.
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

// settle tells everybody that a batch is in Redis, in the order of the batches.
// When the next one may be waiting, that happens while Redis works on it. What
// has to be marked is not put off: the next turn asks for what is not marked.
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
			b.moreRows = false // with the next event, not in a circle
		}
	} else if len(done) == 1 {
		tell()
	} else {
		b.work.Go(tell)
	}
}

// settled waits until everybody was told of the last batch.
func (b *Bus) awaitAcknowledged() {
	b.settling.Lock()
	defer b.settling.Unlock()
}

// refuseHandled tells those who publish to a topic that got its first group since
// they looked to write rows: from then on nothing is in Redis alone.
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

// announce feeds a batch that Redis has to groups and tails, and remembers it.
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
