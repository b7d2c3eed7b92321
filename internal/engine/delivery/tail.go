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

// hub is where the commits of one topic meet those who listen to it now.
type hub struct {
	mu     sync.Mutex
	newest int64 // the last place that was fed
	all    map[*tailQueue]struct{}
	lanes  map[string]map[*tailQueue]struct{}
	groups map[*group]struct{}
	users  int // guarded by Bus.mu
}

// tailQueue holds what a tail has not handled yet.
type tailQueue struct {
	lane string
	max  int
	wake chan<- struct{} // one slot: a wake-up that is due is enough

	mu    sync.Mutex
	items []*Record
	// dropped is the first record that did not fit; 0 while all did. From it
	// on the tail must read the log.
	dropped int64
	// again is from where on the log may hold what was not pushed; 0 while it
	// does not.
	reread int64
}

func (q *tailQueue) push(r *Record) {
	q.mu.Lock()
	switch {
	case q.dropped != 0 || q.reread != 0:
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

// look makes the tail read the log again from a place on.
func (q *tailQueue) requestReread(from int64) {
	q.mu.Lock()
	if q.dropped == 0 && q.reread == 0 {
		q.reread = from
	}
	q.mu.Unlock()
	q.notify()
}

func (q *tailQueue) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves what waits to a reader that has nothing left, and reports whether
// anything did. The reader's buffer is the queue's next one.
func (q *tailQueue) drainTo(r *reader) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 && q.dropped == 0 && q.reread == 0 {
		return false
	}
	spare := r.items[:0]
	r.items, r.dropped, r.reread = q.items, q.dropped, q.reread
	q.items, q.dropped, q.reread = spare, 0, 0
	return true
}

// Feed hands records that were appended to who listens. The engine of the log
// calls it in log order; a record that was fed before does no harm.
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

// missed makes every tail read the log again behind what was fed.
func (h *hub) rereadAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for q := range h.all {
		q.requestReread(h.newest + 1)
	}
	for _, lane := range h.lanes {
		for q := range lane {
			q.requestReread(h.newest + 1)
		}
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

// Open is [Engine.Tail] for who reads many topics in one goroutine.
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

// reader is a tail on its way through a topic.
type reader struct {
	b   *Engine
	t   bus.Tail
	hub *hub
	pos int64

	queue tailQueue
	// items are what was taken and not handed out yet, from next on.
	items []*Record
	next  int
	// dropped is where the log goes on behind items, 0 when the queue does, and
	// again from where it is read although all that was there was seen.
	dropped, reread int64
	// damage ends the tail behind items.
	damage error
	// behind says that the log holds what was not seen, begun that the log was
	// read once, ready that the queue took over from it once.
	behind, begun, ready bool
	// seen says that nothing that was removed from the log was missed.
	seen bool
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

// rejoinRetry is how soon a log that is out of reach is read again.
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
			// All before it was pushed, so that is how far this tail has seen.
			r.pos, r.dropped, r.behind = max(r.pos, r.dropped-1), 0, true
		case r.reread != 0:
			r.pos, r.reread, r.behind, r.seen = max(r.pos, r.reread-1), 0, true, true
		case r.behind:
			err := r.read(ctx)
			if r.ready && fault.KindOf(err) == fault.Unavailable && ctx.Err() == nil {
				// It catches up, however long the log is out of reach meanwhile.
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

// hand returns the next of items that was not seen.
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

// read takes what comes next from the log. The last read begins after the
// queue was in place and is short, so whatever it did not see will be pushed.
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
	if err == nil && !r.seen {
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

// caughtUp goes over from the log to the queue.
func (r *reader) caughtUp() {
	r.items, r.begun, r.behind, r.seen = nil, true, false, false
	if !r.ready && r.t.Ready != nil {
		r.t.Ready()
	}
	r.ready = true
}

// startAt returns the position to read behind, or ErrTrimmed when something
// behind it was removed. The beginning is what is still there, but an output
// that was removed as a whole has none. Who has read some of such an output may have
// read all: only an engine that knows where it ended knows that.
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
			// A damaged row is reported when it is the first one asked for.
			return nil, fmt.Errorf("fetch from %s: %w", topic, err)
		}
		if pos, err = startAt(info, pos, after == ""); err != nil {
			return nil, fmt.Errorf("fetch from %s: %w", topic, err)
		}
		if len(records) == 0 || records[0].Seq > pos {
			break
		}
		// A log with a hole has some from before it. Who read on behind these would be told
		// of the hole, and so for ever.
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

// ackNothing is the Ack of deliveries that commit nothing.
func ackNothing(*db.Tx) error { return nil }

// untilClosed ends ctx also when the bus is closed.
func (b *Engine) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
