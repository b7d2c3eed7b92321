package delivery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// hub is where the commits of one topic meet those who listen to it now.
type hub struct {
	mu     sync.Mutex
	all    map[*tailQueue]struct{}
	lanes  map[string]map[*tailQueue]struct{}
	groups map[*group]struct{}
	users  int // guarded by Bus.mu
}

// tailQueue holds what a tail has not handled yet.
type tailQueue struct {
	lane string
	max  int
	wake chan struct{} // one slot: a wake-up that is due is enough

	mu    sync.Mutex
	items []*Record
	// dropped is the first record that did not fit; 0 while all did. From it
	// on the tail must read the log.
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
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take waits for records. It gives spare back to the queue as its next buffer.
func (q *tailQueue) take(ctx context.Context, spare []*Record) (items []*Record, dropped int64, ok bool) {
	for {
		q.mu.Lock()
		items, dropped = q.items, q.dropped
		if len(items) > 0 || dropped != 0 {
			clear(spare)
			q.items, q.dropped = spare[:0], 0
			q.mu.Unlock()
			return items, dropped, true
		}
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil, 0, false
		}
	}
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
		g.fed(records)
	}
	for _, r := range records {
		for q := range h.all {
			q.push(r)
		}
		for q := range h.lanes[r.Lane] {
			q.push(r)
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
	pos, err := b.events.Seq(t.After)
	if err != nil {
		return err
	}
	hub, err := b.useHub(t.Topic)
	if err != nil {
		return err
	}
	defer b.leaveHub(t.Topic, hub)
	q := &tailQueue{lane: t.Lane, max: b.opt.TailQueue, wake: make(chan struct{}, 1)}
	hub.add(q)
	defer hub.remove(q)
	v := &view{b: b, t: t, pos: pos, h: h}
	if t.FromNow {
		err = v.skipToEnd(ctx)
	} else {
		err = v.catchUp(ctx, t.After == "")
	}
	if err == nil {
		if t.Ready != nil {
			t.Ready()
		}
		err = v.follow(ctx, q)
	}
	if err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// view is a tail on its way through a topic.
type view struct {
	b   *Engine
	t   bus.Tail
	pos int64
	h   func(bus.Delivery) error
	// failed says that an error is the handler's.
	failed bool
}

func (v *view) skipToEnd(ctx context.Context) error {
	info, err := v.b.events.Topic(ctx, v.t.Topic)
	v.pos = info.Last
	return err
}

// follow handles what is pushed, and what the log holds when the queue was too
// short.
func (v *view) follow(ctx context.Context, q *tailQueue) error {
	var spare []*Record
	for {
		items, dropped, ok := q.take(ctx, spare)
		if !ok {
			return nil
		}
		for _, r := range items {
			if err := v.handle(ctx, r); err != nil {
				return err
			}
		}
		spare = items
		if dropped != 0 {
			// All before it was pushed, so that is how far this tail has seen.
			v.pos = max(v.pos, dropped-1)
			if err := v.rejoin(ctx); err != nil {
				return err
			}
		}
	}
}

// rejoinRetry is how soon a log that is out of reach is read again.
const rejoinRetry = 250 * time.Millisecond

// rejoin catches up, however long the log is out of reach meanwhile.
func (v *view) rejoin(ctx context.Context) error {
	for {
		err := v.catchUp(ctx, false)
		if fault.KindOf(err) != fault.Unavailable || v.failed || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(rejoinRetry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (v *view) handle(ctx context.Context, r *Record) error {
	if r.Seq <= v.pos {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v.failed = true
	if err := v.h(bus.Delivery{Event: r.Event, Position: v.b.events.Position(r.Seq), Ack: ackNothing}); err != nil {
		return err
	}
	v.pos, v.failed = r.Seq, false
	return nil
}

// catchUp handles what is in the log. The last read begins after the queue was
// in place and is short, so whatever it did not see will be pushed.
func (v *view) catchUp(ctx context.Context, fromBegin bool) error {
	for {
		after := v.pos
		if fromBegin {
			after = 0
		}
		info, chunk, err := v.b.events.Read(ctx, v.t.Topic, after, v.t.Lane, chunkRows)
		var damage error
		if IsDamage(err) {
			damage, err = err, nil
		}
		if err == nil {
			v.pos, err = startAt(info, v.pos, fromBegin)
		}
		if err != nil {
			return err
		}
		fromBegin = false
		for _, r := range chunk {
			if err := v.handle(ctx, r); err != nil {
				return err
			}
		}
		if damage != nil {
			return damage
		}
		if len(chunk) == 0 {
			v.pos = max(v.pos, info.Last)
			return nil
		}
	}
}

// startAt returns the position to read behind, or ErrTrimmed when something
// behind it was removed. The beginning is what is still there, but an output
// that was removed as a whole has none.
func startAt(t Topic, after int64, fromBegin bool) (int64, error) {
	switch {
	case !t.Exists && after > 0, fromBegin && t.Expired, !fromBegin && after < t.Trimmed:
		return 0, bus.ErrTrimmed
	case fromBegin:
		return t.Trimmed, nil
	}
	return after, nil
}

// Fetch returns up to limit events after a position, oldest first.
func (b *Engine) Fetch(ctx context.Context, topic event.Topic, after bus.Position, limit int) ([]bus.Delivery, error) {
	pos, err := b.events.Seq(after)
	if err != nil {
		return nil, err
	}
	info, records, err := b.events.Read(ctx, topic, pos, "", limit)
	if err != nil && len(records) == 0 {
		// A damaged row is reported when it is the first one asked for.
		return nil, fmt.Errorf("fetch from %s: %w", topic, err)
	}
	if _, err := startAt(info, pos, after == ""); err != nil {
		return nil, fmt.Errorf("fetch from %s: %w", topic, err)
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
