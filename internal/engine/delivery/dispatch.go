package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// A plan is the set of changes that one step of the dispatcher writes before it acts on
// them.
type plan struct {
	insert           []*entry // admitted, no pending row yet
	update           []*entry // attempt, consumer, lease, backoff or reason changed
	commit           []*entry // handled
	deadLetters      []*entry // to the dead letters
	start            []*run
	renew            []*entry // heartbeats
	cursor           int64
	alreadyCommitted []*entry // the write found that their handler had committed them
}

func (p *plan) empty(g *group) bool {
	return len(p.insert)+len(p.update)+len(p.commit)+len(p.deadLetters)+len(p.renew) == 0 && p.cursor == g.written
}

// onlyCommits reports whether nothing waits for the plan to be written.
func (p *plan) onlyCommits() bool {
	return len(p.insert)+len(p.update)+len(p.deadLetters)+len(p.start)+len(p.renew) == 0
}

// dispatch runs the group's dispatcher goroutine.
func (g *group) dispatch() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		more, err := g.step()
		if err != nil {
			if g.lastError() == nil { // log once, not at every retry
				g.b.log.Error("cannot dispatch; retrying", "topic", g.name.topic, "group", g.name.name, "error", err)
			}
			g.setError(err)
		} else {
			g.setError(nil)
		}
		wait := g.idleTime()
		if err != nil && !g.broken() {
			wait = min(wait, writeRetry)
		}
		if more && err == nil {
			g.wakeDispatcher()
		}
		timer.Reset(wait)
		select {
		case <-g.wake:
		case <-timer.C:
		case <-g.stop:
			g.flush()
			return
		}
	}
}

// idleTime returns how long the dispatcher may sleep unless it is woken.
func (g *group) idleTime() time.Duration {
	wait := time.Hour
	now := g.b.opt.Now()
	if len(g.lanes.waiting) > 0 {
		wait = min(wait, time.UnixMilli(g.lanes.waiting[0].due).Sub(now))
	}
	if len(g.running) > 0 {
		wait = min(wait, g.beat.Sub(now))
	}
	if g.cursor != g.written {
		wait = min(wait, skipFlush)
	}
	return max(wait, time.Millisecond)
}

// step does everything that can be done now. It returns more if it must be called
// again at once.
func (g *group) step() (more bool, err error) {
	g.mu.Lock()
	posts, outcomes, arrived := g.posts, g.outcomes, g.arrived
	g.posts, g.outcomes, g.arrived = nil, nil, nil
	if g.missed {
		// The log has the records; the next read finds its end.
		g.missed, arrived, g.buffer, g.ahead, g.head = false, nil, nil, nil, -1
	}
	g.mu.Unlock()
	for _, fn := range posts {
		fn()
	}
	defer g.offerClaims()
	p := &plan{cursor: g.written}
	now := g.b.opt.Now()
	if g.broken() {
		g.settle(p, outcomes, now.UnixMilli())
		g.drainAll()
		return false, g.lastError()
	}
	g.followClockSetBack(now.UnixMilli())
	g.settle(p, outcomes, now.UnixMilli())
	if err := (admission{g}).intake(p, arrived, now.UnixMilli()); err != nil {
		return true, g.finish(p, err)
	}
	g.lanes.wake(now.UnixMilli())
	if err := g.choose(p, now); err != nil {
		return true, g.finish(p, err)
	}
	g.heartbeat(p, now)
	p.cursor = g.cursor
	if onlySkipped := len(p.insert)+len(p.update)+len(p.commit)+len(p.deadLetters)+len(p.renew) == 0; onlySkipped && g.cursor != g.written {
		if g.skipSince.IsZero() {
			g.skipSince = now
		}
		if now.Sub(g.skipSince) < skipFlush && g.cursor-g.written < chunkRows {
			p.cursor = g.written
		}
	}
	if err := g.finish(p, nil); err != nil {
		return false, err
	}
	return len(p.alreadyCommitted) > 0 || g.canAdmit() || len(g.lanes.ready) > 0 && g.freeSlots() > 0, nil
}

// finish writes the plan and acts on it. It returns cut, the reason why the step
// ended early.
func (g *group) finish(p *plan, cut error) error {
	if cut != nil {
		p.cursor = g.cursor
	}
	if err := (planWriter{g}).write(p); err != nil {
		g.drainAll()
		return errors.Join(cut, err)
	}
	g.startHandlers(p)
	return cut
}

// canAdmit reports whether the next event may enter the window. A full window is
// refilled one chunk at a time, because each step that admits an event writes pages
// at both ends of the window.
func (g *group) canAdmit() bool {
	if n := len(g.entries); n >= window {
		g.full = true
	} else if n <= window-chunkRows {
		g.full = false
	}
	return !g.full && (g.head < 0 || g.head > g.cursor) && g.freeSlots() > len(g.lanes.ready)
}

// settle adds the outcomes of handlers to the plan.
func (g *group) settle(p *plan, outcomes []outcome, now int64) {
	for _, o := range outcomes {
		r := o.run
		if o.returned {
			g.abandoned--
			continue
		}
		delete(g.running, r)
		r.c.running--
		if o.abandoned {
			g.abandoned++
		}
		e := r.e
		e.run = nil
		switch {
		case r.acked.Load():
			if o.err != nil {
				g.b.log.Warn("handler failed after it had committed its delivery", "topic", g.name.topic,
					"group", g.name.name, "event_id", e.rec.ID, "error", o.err)
			}
			g.forget(e, now)
		case o.err == nil:
			p.commit = append(p.commit, e)
			g.forget(e, now)
		case stopped(r.c, o.err):
			e.attempt--
			e.consumer, e.leaseUntil = "", 0
			p.update = append(p.update, e)
		default:
			reason, outage := text.Truncate(fault.Plain(o.err), reasonMax), db.IsOutage(o.err)
			if !outage || reason != e.reason { // an outage may last, and is tried often
				g.b.log.Warn("handler failed", "topic", g.name.topic, "group", g.name.name,
					"event_id", e.rec.ID, "attempt", e.attempt, "error", o.err)
			}
			e.consumer, e.leaseUntil, e.reason = "", 0, reason
			if !outage && e.attempt >= r.c.sub.MaxAttempts || bus.IsPermanent(o.err) {
				p.deadLetters = append(p.deadLetters, e)
				g.forget(e, now)
				break
			}
			e.notBefore = now + r.c.sub.Backoff(e.attempt).Milliseconds()
			if outage { // no attempt: the event is not at fault, however long it lasts
				e.attempt--
				e.notBefore = now + writeRetry.Milliseconds()
			}
			p.update = append(p.update, e)
		}
	}
}

// forget removes a finished entry and schedules the next one of its lane.
func (g *group) forget(e *entry, now int64) {
	if g.entries[e.seq] != e {
		return
	}
	delete(g.entries, e.seq)
	if e.rec != nil && !e.replay {
		g.memory -= e.rec.size()
	}
	g.lanes.remove(e)
	g.schedule(e.lane, now)
}

// followClockSetBack shifts retries when the clock was set back, so that none waits longer
// than its backoff.
func (g *group) followClockSetBack(now int64) {
	back := g.seen - now
	if g.seen = now; back <= 0 {
		return
	}
	for _, e := range g.entries {
		e.notBefore -= back
	}
	for _, ln := range g.lanes.clearWaiting() {
		g.schedule(ln, now)
	}
}

// placeholder returns a record that replaces an event whose row is damaged.
func (g *group) placeholder(seq int64) *Record {
	return &Record{Seq: seq, Event: event.Event{
		ID: fmt.Sprintf("damaged:%s:%d", g.name.topic, seq), Topic: g.name.topic, Type: damagedType, Data: []byte("null"),
	}}
}

// wanted reports whether the consumers of the group want a type.
func (g *group) wanted(t event.Type) bool {
	return len(g.types) == 0 || slices.Contains(g.types, t)
}

// choose plans the start of the first entry of each ready lane while consumers have free
// slots.
func (g *group) choose(p *plan, now time.Time) error {
	ms := now.UnixMilli()
	for {
		ln := g.lanes.next()
		if ln == nil {
			return nil
		}
		e := ln.entries[0]
		c := g.pick()
		if c == nil {
			g.lanes.putBack(ln)
			return nil
		}
		if e.rec == nil {
			if ok, err := g.fetch(p, e, ms); err != nil {
				g.lanes.putBack(ln)
				return err
			} else if !ok {
				continue
			}
		}
		if !g.wanted(e.rec.Type) { // admitted for consumers that wanted it
			p.commit = append(p.commit, e)
			g.forget(e, ms)
			continue
		}
		if e.attempt >= c.sub.MaxAttempts {
			if e.reason == "" {
				e.reason = fmt.Sprintf("the process ended during attempt %d", e.attempt)
			}
			p.deadLetters = append(p.deadLetters, e)
			g.forget(e, ms)
			continue
		}
		counted := e.claimedBy == c.sub.Consumer && e.attempt == 0
		e.claimedBy = ""
		e.attempt++
		e.consumer = c.sub.Consumer
		if !counted {
			e.leaseUntil = now.Add(c.sub.Lease).UnixMilli()
		}
		e.run = &run{g: g, c: c, e: e, attempt: e.attempt}
		c.running++
		if len(g.running) == 0 {
			g.beat = now.Add(c.sub.Lease / 3)
		} else if at := now.Add(c.sub.Lease / 3); at.Before(g.beat) {
			g.beat = at
		}
		g.running[e.run] = struct{}{}
		p.start = append(p.start, e.run)
		if e.stored && !counted {
			p.update = append(p.update, e)
		}
	}
}

// fetch loads the event of an entry. It reports false when there is none to run.
func (g *group) fetch(p *plan, e *entry, now int64) (bool, error) {
	r, err := (*Record)(nil), e.damage
	if err == nil {
		r, err = g.b.events.One(context.Background(), g.name.topic, e.seq)
	}
	var damage error
	if db.IsDamaged(err) {
		damage, err = err, nil
	}
	e.rec = r
	switch {
	case err != nil:
		return false, err
	case damage != nil:
		g.b.log.Error("damaged event moved to the dead letters", "topic", g.name.topic, "group", g.name.name, "position", e.seq, "error", damage)
		e.rec, e.replay, e.reason = g.placeholder(e.seq), true, text.Truncate(damage.Error(), reasonMax)
		p.deadLetters = append(p.deadLetters, e)
		g.forget(e, now)
		return false, nil
	case e.rec == nil:
		g.b.log.Error("unhandled event is missing from the log", "topic", g.name.topic, "group", g.name.name, "position", e.seq)
		p.commit = append(p.commit, e)
		g.forget(e, now)
		return false, nil
	}
	g.memory += r.size()
	return true, nil
}

// heartbeat renews the leases of running deliveries, at a third of the shortest lease.
func (g *group) heartbeat(p *plan, now time.Time) {
	if len(g.running) == 0 || now.Before(g.beat) {
		return
	}
	next := now.Add(defaultLease)
	for r := range g.running {
		r.e.leaseUntil = now.Add(r.c.sub.Lease).UnixMilli()
		p.renew = append(p.renew, r.e)
		if at := now.Add(r.c.sub.Lease / 3); at.Before(next) {
			next = at
		}
	}
	g.beat = next
}

// startHandlers starts the handlers of a written plan.
func (g *group) startHandlers(p *plan) {
	now := g.b.opt.Now().UnixMilli()
	for _, e := range p.alreadyCommitted {
		if r := e.run; r != nil { // committed already: it must not run again
			delete(g.running, r)
			r.c.running--
			p.start = slices.DeleteFunc(p.start, func(x *run) bool { return x == r })
			e.run = nil
		}
		g.forget(e, now)
	}
	for _, e := range p.update {
		if e.run == nil && g.entries[e.seq] == e {
			g.schedule(e.lane, now)
		}
	}
	for _, r := range p.start {
		rec := r.e.rec
		go r.handle(rec)
	}
	g.drainAll()
}

func (g *group) drainAll() {
	for _, c := range slices.Clone(g.list) {
		g.drain(c)
	}
}
