package sqlitebus

import (
	"context"
	"fmt"
	"sync"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
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
	items []*record
	// dropped is the first record that did not fit; 0 while all did. From it
	// on the tail must read the log.
	dropped int64
}

func (q *tailQueue) push(r *record) {
	q.mu.Lock()
	switch {
	case q.dropped != 0:
	case len(q.items) >= q.max:
		q.dropped = r.seq
	default:
		q.items = append(q.items, r)
	}
	first := len(q.items) == 1 || q.dropped == r.seq
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// take waits for records. It gives spare back to the queue as its next buffer.
func (q *tailQueue) take(ctx context.Context, spare []*record) (items []*record, dropped int64, ok bool) {
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

// feed hands committed records to who listens. It is called in log order.
func (b *Bus) feed(records []*record) {
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

func (h *hub) push(records []*record) {
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

func (b *Bus) useHub(topic event.Topic) (*hub, error) {
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

func (b *Bus) leaveHub(topic event.Topic, h *hub) {
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
func (b *Bus) Tail(ctx context.Context, t bus.Tail, h func(bus.Delivery) error) error {
	ctx, stop := b.untilClosed(ctx)
	defer stop()
	pos, err := parsePosition(t.After)
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
	b   *Bus
	t   bus.Tail
	pos int64
	h   func(bus.Delivery) error
}

func (v *view) skipToEnd(ctx context.Context) error {
	return v.b.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, v.t.Topic)
		v.pos = info.last
		return err
	})
}

// follow handles what is pushed, and what the log holds when the queue was too
// short.
func (v *view) follow(ctx context.Context, q *tailQueue) error {
	var spare []*record
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
			if err := v.catchUp(ctx, false); err != nil {
				return err
			}
		}
	}
}

func (v *view) handle(ctx context.Context, r *record) error {
	if r.seq <= v.pos {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.h(bus.Delivery{Event: r.Event, Position: r.position(), Ack: ackNothing}); err != nil {
		return err
	}
	v.pos = r.seq
	return nil
}

// catchUp handles what is in the log. The last read begins after the queue was
// in place and is short, so whatever it did not see will be pushed.
func (v *view) catchUp(ctx context.Context, fromBegin bool) error {
	for {
		var chunk []*record
		var end int64
		var damage error
		err := v.b.db.Read(ctx, func(q db.Queryer) error {
			info, err := findTopic(q, v.t.Topic)
			if err != nil {
				return err
			}
			if v.pos, err = startAt(info, v.pos, fromBegin); err != nil {
				return err
			}
			if info.last > v.pos {
				chunk, damage = readLog(q, v.t.Topic, info.id, v.pos, v.t.Lane, chunkRows)
			}
			if len(chunk) == 0 {
				end = info.last
			}
			return nil
		})
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
			v.pos = max(v.pos, end)
			return nil
		}
	}
}

// startAt returns the position to read behind, or ErrTrimmed when something
// behind it was removed. The beginning is what is still there, but an output
// that was removed as a whole has none.
func startAt(t topicInfo, after int64, fromBegin bool) (int64, error) {
	switch {
	case t.id == 0 && after > 0, fromBegin && t.expired, !fromBegin && after < t.trimmed:
		return 0, bus.ErrTrimmed
	case fromBegin:
		return t.trimmed, nil
	}
	return after, nil
}

// Fetch returns up to limit events after a position, oldest first.
func (b *Bus) Fetch(ctx context.Context, topic event.Topic, after bus.Position, limit int) ([]bus.Delivery, error) {
	pos, err := parsePosition(after)
	if err != nil {
		return nil, err
	}
	var out []bus.Delivery
	err = b.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		if err != nil {
			return err
		}
		if pos, err = startAt(info, pos, after == ""); err != nil || info.last <= pos || limit <= 0 {
			return err
		}
		records, err := readLog(q, topic, info.id, pos, "", limit)
		for _, r := range records {
			out = append(out, bus.Delivery{Event: r.Event, Position: r.position(), Ack: ackNothing})
		}
		if len(out) > 0 {
			return nil // a damaged row is reported when it is the first one asked for
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fetch from %s: %w", topic, err)
	}
	return out, nil
}

// Last returns the position of the newest event of a topic, "" if empty.
func (b *Bus) Last(ctx context.Context, topic event.Topic) (p bus.Position, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		p = position(info.last)
		return err
	})
	return p, err
}

// ackNothing is the Ack of deliveries that commit nothing.
func ackNothing(*db.Tx) error { return nil }

// untilClosed ends ctx also when the bus is closed.
func (b *Bus) untilClosed(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
