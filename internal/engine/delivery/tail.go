package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// hub distributes the new records of one topic to its tails and groups.
type hub struct {
	mu     sync.Mutex
	newest int64 // the last position that was fed
	all    map[*tailQueue]struct{}
	lanes  map[string]map[*tailQueue]struct{}
	groups map[*group]struct{}
	users  int // guarded by Engine.mu
}

// tailQueue holds the records that a tail has not handled yet.
type tailQueue struct {
	lane string
	max  int
	wake chan<- struct{} // one slot: one pending wake-up is enough

	mu    sync.Mutex
	items []*Record
	// dropped is the position of the first record that did not fit, or 0. From there,
	// the tail must read the log.
	dropped int64
}

func (q *tailQueue) push(r *Record) {
	q.mu.Lock()
	switch {
	case q.dropped != 0:
	case len(q.items) >= q.max:
		q.dropped = r.Seq
	default:
		q.items = append(q.items, r)
	}
	first := len(q.items) == 1 || q.dropped == r.Seq
	q.mu.Unlock()
	if first {
		q.notify()
	}
}

func (q *tailQueue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drainTo moves the queued records to a reader whose buffer is empty, and reports
// whether there were any. It swaps the two buffers to avoid an allocation.
func (q *tailQueue) drainTo(r *reader) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 && q.dropped == 0 {
		return false
	}
	spare := r.items[:0]
	r.items, r.dropped = q.items, q.dropped
	q.items, q.dropped = spare, 0
	return true
}

// Feed passes appended records to the tails and groups of their topics. The engine of
// the log must call it in log order. A record that was fed before is ignored.
func (b *Engine) Feed(records []*Record) {
	for len(records) > 0 {
		topic, n := records[0].Topic, 1
		for n < len(records) && records[n].Topic == topic {
			n++
		}
		b.mu.RLock()
		h := b.hubs[topic]
		b.mu.RUnlock()
		if h != nil {
			h.push(records[:n])
		}
		records = records[n:]
	}
}

func (h *hub) push(records []*Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for g := range h.groups {
		g.enqueue(records)
	}
	for _, r := range records {
		for q := range h.all {
			q.push(r)
		}
		for q := range h.lanes[r.Lane] {
			q.push(r)
		}
		h.newest = max(h.newest, r.Seq)
	}
}

func (b *Engine) useHub(topic event.Topic) (*hub, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed()
	}
	h := b.hubs[topic]
	if h == nil {
		h = &hub{
			all:    make(map[*tailQueue]struct{}),
			lanes:  make(map[string]map[*tailQueue]struct{}),
			groups: make(map[*group]struct{}),
		}
		b.hubs[topic] = h
	}
	h.users++
	return h, nil
}

func (b *Engine) leaveHub(topic event.Topic, h *hub) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.users--; h.users == 0 {
		delete(b.hubs, topic)
	}
}

func (h *hub) add(q *tailQueue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.lane == "" {
		h.all[q] = struct{}{}
		return
	}
	if h.lanes[q.lane] == nil {
		h.lanes[q.lane] = make(map[*tailQueue]struct{})
	}
	h.lanes[q.lane][q] = struct{}{}
}

func (h *hub) remove(q *tailQueue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.lane == "" {
		delete(h.all, q)
		return
	}
	delete(h.lanes[q.lane], q)
	if len(h.lanes[q.lane]) == 0 {
		delete(h.lanes, q.lane)
	}
}

// Tail calls h for each event, in order, until ctx ends or h fails.
func (b *Engine) Tail(ctx context.Context, t bus.Tail, h func(bus.Delivery) error) error {
	ctx, stop := b.untilClosed(ctx)
	defer stop()
	wake := make(chan struct{}, 1)
	r, err := b.Open(t, wake)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		d, ok, err := r.Next(ctx)
		switch {
		case err != nil && (ctx.Err() != nil || b.ctx.Err() != nil):
			return nil
		case err != nil:
			return err
		case ok:
			if err := h(d); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// Open is like [Engine.Tail], but lets one goroutine read many topics. The caller must
// close the reader.
func (b *Engine) Open(t bus.Tail, wake chan<- struct{}) (bus.Reader, error) {
	pos, err := b.events.Seq(t.After)
	if err != nil {
		return nil, err
	}
	hub, err := b.useHub(t.Topic)
	if err != nil {
		return nil, err
	}
	r := &reader{b: b, t: t, hub: hub, pos: pos, behind: true, queue: tailQueue{lane: t.Lane, max: b.opt.TailQueue, wake: wake}}
	hub.add(&r.queue)
	return r, nil
}

// reader implements [bus.Reader]: it reads the log until it has caught up, then the
// queue.
type reader struct {
	b   *Engine
	t   bus.Tail
	hub *hub
	pos int64

	queue tailQueue
	// items[next:] are the records that were not returned yet.
	items []*Record
	next  int
	// dropped is the position from which the log continues after items, or 0 if the
	// queue continues.
	dropped int64
	// damage ends the tail after items.
	damage error
	// behind means that the log has records that were not seen; begun, that the log
	// was read once; ready, that the reader has switched to the queue once.
	behind, begun, ready bool
}

// Close implements [bus.Reader].
func (r *reader) Close() {
	if r.hub == nil {
		return
	}
	r.hub.remove(&r.queue)
	r.b.leaveHub(r.t.Topic, r.hub)
	r.hub = nil
}

// rejoinRetry is the delay before an unavailable log is read again.
const rejoinRetry = 250 * time.Millisecond

// Next implements [bus.Reader].
func (r *reader) Next(ctx context.Context) (bus.Delivery, bool, error) {
	for {
		if r.b.ctx.Err() != nil {
			return bus.Delivery{}, false, errClosed()
		}
		if d, ok := r.nextBuffered(); ok {
			return d, true, nil
		}
		switch {
		case r.damage != nil:
			return bus.Delivery{}, false, r.damage
		case r.dropped != 0:
			// All records before dropped were pushed, so this tail has seen them.
			r.pos, r.dropped, r.behind = max(r.pos, r.dropped-1), 0, true
		case r.behind:
			err := r.read(ctx)
			if r.ready && fault.KindOf(err) == fault.Unavailable && ctx.Err() == nil {
				// Retry later: the tail catches up however long the log is unavailable.
				time.AfterFunc(rejoinRetry, r.queue.notify)
				return bus.Delivery{}, false, nil
			}
			if err != nil {
				return bus.Delivery{}, false, err
			}
		default:
			if !r.queue.drainTo(r) {
				return bus.Delivery{}, false, nil
			}
		}
	}
}

// nextBuffered returns the next item that was not seen.
func (r *reader) nextBuffered() (bus.Delivery, bool) {
	for r.next < len(r.items) {
		rec := r.items[r.next]
		r.items[r.next] = nil
		r.next++
		if rec.Seq > r.pos {
			r.pos = rec.Seq
			return bus.Delivery{Event: rec.Event, Position: r.b.events.Position(rec.Seq), Ack: ackNothing}, true
		}
	}
	r.items, r.next = r.items[:0], 0
	return bus.Delivery{}, false
}

// read reads the next records from the log. The queue receives records before the last
// read begins, so no record is lost when the reader switches to the queue.
func (r *reader) read(ctx context.Context) error {
	if r.t.FromNow && !r.begun {
		info, err := r.b.events.Topic(ctx, r.t.Topic)
		if err != nil {
			return err
		}
		r.pos = info.Last
		r.caughtUp()
		return nil
	}
	fromBegin := !r.begun && r.t.After == ""
	after := r.pos
	if fromBegin {
		after = 0
	}
	info, chunk, err := r.b.events.Read(ctx, r.t.Topic, after, r.t.Lane, chunkRows)
	if db.IsDamaged(err) {
		r.damage, err = err, nil
	}
	if err == nil {
		r.pos, err = startAt(info, r.pos, fromBegin)
	}
	if err != nil {
		return err
	}
	r.begun = true
	r.items = chunk
	if len(chunk) == 0 && r.damage == nil {
		r.pos = max(r.pos, info.Last)
		r.caughtUp()
	}
	return nil
}

// caughtUp switches from the log to the queue.
func (r *reader) caughtUp() {
	r.items, r.begun, r.behind = nil, true, false
	if !r.ready && r.t.Ready != nil {
		r.t.Ready()
	}
	r.ready = true
}

// startAt returns the position after which to read, or ErrTrimmed if events after it
// were removed. A read from the beginning starts at the oldest remaining event, but
// fails for an output that was removed as a whole. A tail that continues in such an
// output fails too, unless the engine knows that the tail has read all of it.
func startAt(t Topic, after int64, fromBegin bool) (int64, error) {
	switch {
	case !t.Exists && after > 0, fromBegin && t.Expired, !fromBegin && after < t.Trimmed, t.Expired && after > t.Trimmed:
		return 0, bus.ErrTrimmed
	case fromBegin:
		return t.Trimmed, nil
	}
	return after, nil
}

// Fetch implements [bus.Bus].
func (b *Engine) Fetch(ctx context.Context, topic event.Topic, after bus.Position, limit int) ([]bus.Delivery, error) {
	pos, err := b.events.Seq(after)
	if err != nil {
		return nil, err
	}
	var records []*Record
	for {
		var info Topic
		info, records, err = b.events.Read(ctx, topic, pos, "", limit)
		if err != nil && len(records) == 0 {
			// Report a damaged row only if it is the first one of the request.
			return nil, fmt.Errorf("fetch from %s: %w", topic, err)
		}
		if pos, err = startAt(info, pos, after == ""); err != nil {
			return nil, fmt.Errorf("fetch from %s: %w", topic, err)
		}
		if len(records) == 0 || records[0].Seq > pos {
			break
		}
		// A log with a gap can have records from before the gap. A caller that continued
		// after these would get ErrTrimmed again and again.
	}
	out := make([]bus.Delivery, 0, len(records))
	for _, r := range records {
		out = append(out, bus.Delivery{Event: r.Event, Position: b.events.Position(r.Seq), Ack: ackNothing})
	}
	return out, nil
}

// Last returns the position of the newest event of a topic, "" if empty.
func (b *Engine) Last(ctx context.Context, topic event.Topic) (bus.Position, error) {
	info, err := b.events.Topic(ctx, topic)
	if err != nil {
		return "", err
	}
	return b.events.Position(info.Last), nil
}

// Back returns a position after which the topic has at most n events, the newest ones.
func (b *Engine) Back(ctx context.Context, topic event.Topic, n int) (bus.Position, error) {
	info, err := b.events.Topic(ctx, topic)
	if err != nil {
		return "", fmt.Errorf("find the newest events of %s: %w", topic, err)
	}
	return b.events.Position(max(info.Trimmed, info.Last-int64(n))), nil
}

// ackNothing is the Ack of deliveries that commit nothing.
func ackNothing(*db.Tx) error { return nil }

// untilClosed returns a context that also ends when the bus closes.
func (b *Engine) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
