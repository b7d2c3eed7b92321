package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// window is the maximum number of events that a group has admitted and not
	// committed. It is large, so that a lane that waits for a retry does not hold up the
	// others.
	window = 4096
	// arrivedMax is the maximum number of records that are fed to a group directly;
	// beyond it, the group reads the log.
	arrivedMax = 1024
	// inMemory is the maximum size of the entries' events in memory, in bytes. A window
	// of typical events fits. Events beyond the limit are read again when they start.
	inMemory = 4 << 20
	// skipFlush is the maximum delay before a cursor that only skipped events is
	// written.
	skipFlush = time.Second
	// reasonMax is the maximum length of a failure reason.
	reasonMax = 2000
)

// group dispatches the events of one group to the consumers in this process.
// Its goroutine owns all fields except those that mu guards; other goroutines use post.
type group struct {
	b     *Engine
	name  groupName
	types []event.Type // the types that its consumers want; empty means all
	users int          // guarded by Engine.mu

	loaded   chan struct{} // closed when start has finished and set startErr
	startErr error
	ended    chan struct{}
	// gaveUp is closed if a plan could not be written while every consumer was
	// stopping. This dispatcher then starts no more handlers, and the next one loads
	// the stored state.
	gaveUp chan struct{}
	stop   chan struct{}
	done   sync.WaitGroup
	wake   chan struct{} // one slot: one pending wake-up is enough
	hub    *hub

	mu        sync.Mutex
	posts     []func()
	outcomes  []outcome
	arrived   []*Record
	missed    bool // arrived was full, so the log has more records
	err       error
	claimable claimable

	id        int64
	cursor    int64 // all events up to here were admitted or skipped
	written   int64 // the cursor in the database
	head      int64 // known end of the topic; -1 if unknown
	skipSince time.Time
	seen      int64 // the last time read from the clock, in ms
	beat      time.Time
	entries   map[int64]*entry
	full      bool // entries filled the window and have not shrunk by a chunk since
	lanes     lanes
	ahead     []*Record // read from the log after the cursor, not admitted yet
	buffer    []*Record // fed, not admitted yet
	memory    int       // bytes of entries' events in memory
	consumers
	running map[*run]struct{}
}

func newGroup(b *Engine, name groupName, types []event.Type) *group {
	return &group{
		b: b, name: name, types: types,
		loaded: make(chan struct{}), ended: make(chan struct{}), gaveUp: make(chan struct{}), stop: make(chan struct{}),
		wake:      make(chan struct{}, 1),
		entries:   make(map[int64]*entry),
		lanes:     lanes{byName: make(map[string]*lane)},
		running:   make(map[*run]struct{}),
		claimable: claimable{claimed: make(map[int64]claim)},
	}
}

// start declares the group, subscribes to the hub of the topic, loads the pending rows
// and starts the dispatcher.
func (g *group) start(s bus.Subscription) error {
	if err := g.b.Declare(g.b.ctx, s); err != nil {
		return err
	}
	h, err := g.b.useHub(g.name.topic)
	if err != nil {
		return err
	}
	g.hub = h
	h.mu.Lock()
	h.groups[g] = struct{}{}
	h.mu.Unlock()
	if err := g.load(); err != nil {
		return err
	}
	g.done.Go(g.dispatch)
	return nil
}

// end stops the dispatcher, whose last consumer must have drained.
func (g *group) end() {
	close(g.stop)
	g.done.Wait()
	if g.hub == nil {
		return
	}
	g.hub.mu.Lock()
	delete(g.hub.groups, g)
	g.hub.mu.Unlock()
	g.b.leaveHub(g.name.topic, g.hub)
}

func (g *group) setError(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// broken reports whether the dispatcher has given up.
func (g *group) broken() bool {
	select {
	case <-g.gaveUp:
		return true
	default:
		return false
	}
}

func (g *group) lastError() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// trouble returns the reason why the group cannot deliver, or nil.
func (g *group) trouble() error {
	if err := g.lastError(); err != nil {
		return fault.Wrap(fault.Unavailable, err, "The group %s of %s cannot go on.", g.name.name, g.name.topic)
	}
	return nil
}

func (g *group) wakeDispatcher() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// post runs fn in the dispatcher.
func (g *group) post(fn func()) {
	g.mu.Lock()
	g.posts = append(g.posts, fn)
	g.mu.Unlock()
	g.wakeDispatcher()
}

func (g *group) report(o outcome) {
	g.mu.Lock()
	g.outcomes = append(g.outcomes, o)
	g.mu.Unlock()
	g.wakeDispatcher()
}

// enqueue adds committed records for the dispatcher. The hub calls it in log order.
func (g *group) enqueue(records []*Record) {
	g.mu.Lock()
	if len(g.arrived)+len(records) > arrivedMax {
		g.missed = true
	} else {
		g.arrived = append(g.arrived, records...)
	}
	g.mu.Unlock()
	g.wakeDispatcher()
}

func (g *group) load() error {
	now := g.b.opt.Now().UnixMilli()
	g.seen = now
	return g.b.db.Read(context.Background(), func(q db.Queryer) error {
		var err error
		if g.id, err = findGroup(q, g.name.topic, g.name.name); err != nil {
			return err
		}
		g.head = -1 // the first read finds the end of the log
		if err := q.QueryRow("SELECT cursor FROM bus_groups WHERE id = ?", g.id).Scan(&g.cursor); err != nil {
			return err
		}
		g.written, g.claimable.cursor = g.cursor, g.cursor
		if err := g.loadPending(q, 0); err != nil {
			return err
		}
		for _, ln := range g.lanes.byName {
			g.schedule(ln, now)
		}
		return nil
	})
}

// loadPending creates entries for the pending rows: for all, or for the one at seq.
func (g *group) loadPending(q db.Queryer, seq int64) error {
	rows, err := q.Query(`SELECT p.seq, p.attempt, p.consumer, p.lease_until, p.not_before, p.reason, p.event, p.sum, p.lane
		FROM bus_pending p WHERE p.grp = ? AND (? = 0 OR p.seq = ?) ORDER BY p.seq`, g.id, seq, seq)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		e := &entry{stored: true}
		var stored []byte
		var sum *int64
		var laneName string
		if err := rows.Scan(&e.seq, &e.attempt, &e.consumer, &e.leaseUntil, &e.notBefore, &e.reason, &stored, &sum, &laneName); err != nil {
			return err
		}
		if stored != nil {
			if e.rec, e.damage = decodeReplay(e.seq, stored, sum); e.damage == nil {
				e.replay, laneName = true, e.rec.Lane
			}
		}
		if g.entries[e.seq] == nil {
			g.entries[e.seq] = e
			g.lanes.add(e, laneName)
		}
	}
	return rows.Err()
}

// schedule queues a lane until its first entry may start: after its backoff, and after
// the lease of a consumer that does not belong to this dispatcher.
func (g *group) schedule(ln *lane, now int64) {
	if len(ln.entries) == 0 {
		return
	}
	e := ln.entries[0]
	due := e.notBefore
	if e.consumer != "" && !g.serves(e.consumer) {
		due = max(due, e.leaseUntil)
	}
	g.lanes.schedule(ln, now, due)
}

func (g *group) attach(c *consumer) {
	g.list = append(g.list, c)
	now := g.b.opt.Now().UnixMilli()
	for _, ln := range g.lanes.clearWaiting() {
		g.schedule(ln, now)
	}
}

// detach stops a consumer. It waits for the consumer's handlers to return, and abandons
// those that have not returned after [Options.Grace].
func (g *group) detach(c *consumer) {
	c.stopping = true
	if g.drain(c) {
		return
	}
	grace := time.AfterFunc(g.b.opt.Grace, func() {
		g.post(func() {
			for r := range g.running {
				if r.c == c {
					go r.abandon(context.Canceled)
				}
			}
		})
	})
	g.done.Go(func() {
		<-c.drained
		grace.Stop()
	})
}

// drain removes a stopping consumer that has no running handlers.
func (g *group) drain(c *consumer) bool {
	if !c.stopping || c.running > 0 {
		return false
	}
	for i, x := range g.list {
		if x == c {
			g.list = append(g.list[:i], g.list[i+1:]...)
			close(c.drained)
			break
		}
	}
	return true
}

// stopped reports whether a handler failed only because its consumer is stopping. That
// does not count as an attempt.
func stopped(c *consumer, err error) bool {
	return c.ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(c.ctx)) ||
		fault.KindOf(err) == fault.Cancelled)
}
