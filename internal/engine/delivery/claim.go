package delivery

import (
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// claimable holds what the database's writer may claim for a group: an event whose
// first attempt is counted in the transaction that appends it. That saves a
// transaction between the append and the handler.
//
// Both the writer and the dispatcher change it; group.mu guards it.
type claimable struct {
	// consumer handles claimed events, with this lease; an empty name means that
	// nothing can be claimed now.
	consumer string
	lease    time.Duration
	reads    func(tx *db.Tx, e event.Event)
	// free is how many more handlers may start.
	free int
	// cursor is the group's cursor in the database, as of the writer's transaction.
	cursor int64
	// claimed holds the claimed events that the dispatcher has not seen yet.
	claimed map[int64]claim
}

// A claim is the consumer of a claimed event and the end of its lease in ms.
type claim struct {
	consumer string
	until    int64
}

// Claim offers a record that is being appended to the groups that can start it at
// once. It is for engines whose positions increase by one and that append in tx;
// groups read other records when they are fed.
func (b *Engine) Claim(tx *db.Tx, r *Record) error {
	b.mu.RLock()
	h := b.hubs[r.Topic]
	b.mu.RUnlock()
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for g := range h.groups {
		if err := g.claim(tx, r); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) claim(tx *db.Tx, r *Record) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.claimable.consumer == "" || g.claimable.free <= 0 || r.Seq != g.claimable.cursor+1 || !g.wanted(r.Type) {
		return nil
	}
	until := g.b.opt.Now().Add(g.claimable.lease).UnixMilli()
	_, err := tx.Exec(insertPending, g.id, r.Seq, r.Lane, 1, g.claimable.consumer, until, 0, "")
	if err != nil {
		return err
	}
	if _, err := tx.Exec(moveCursor, r.Seq, g.id, r.Seq); err != nil {
		return err
	}
	g.claimable.free--
	g.claimable.cursor = r.Seq
	g.claimable.claimed[r.Seq] = claim{g.claimable.consumer, until}
	if reads := g.claimable.reads; reads != nil {
		tx.AheadOfNext(func(tx *db.Tx) { reads(tx, r.Event) })
	}
	tx.AfterRollback(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.claimable.cursor = r.Seq - 1
		delete(g.claimable.claimed, r.Seq)
	})
	return nil
}

// offerClaims updates what may be claimed: only events that would start at once, since
// a claim counts as an attempt if the process dies.
func (g *group) offerClaims() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claimable.consumer = ""
	if len(g.list) != 1 || len(g.lanes.ready) > 0 || g.broken() || !g.canStart(g.list[0]) {
		return
	}
	c := g.list[0]
	g.claimable.consumer, g.claimable.lease, g.claimable.reads = c.sub.Consumer, c.sub.Lease, c.sub.Reads
	g.claimable.free = g.limit(c) - c.running - len(g.claimable.claimed)
}

// acceptClaim reports whether the event of an entry was claimed, and records the claim in
// the entry.
func (g *group) acceptClaim(e *entry) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.claimable.claimed[e.seq]
	if !ok {
		return false
	}
	delete(g.claimable.claimed, e.seq)
	// All earlier events were in the database when this one was claimed.
	g.written = max(g.written, e.seq)
	e.stored, e.claimedBy, e.leaseUntil = true, c.consumer, c.until
	return true
}

// noteCursor records the cursor that a transaction of the dispatcher writes.
func (g *group) noteCursor(tx *db.Tx, cursor int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.claimable.cursor
	g.claimable.cursor = max(before, cursor)
	tx.AfterRollback(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.claimable.cursor = before
	})
}

// releaseClaims undoes the attempt count of claims that did not start, because stopping
// does not count as an attempt.
func (g *group) releaseClaims(p *plan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claimable.consumer = ""
	for seq := range g.claimable.claimed {
		p.update = append(p.update, &entry{seq: seq, stored: true})
	}
	clear(g.claimable.claimed)
	for _, e := range g.entries {
		if e.claimedBy != "" {
			e.claimedBy, e.leaseUntil = "", 0
			p.update = append(p.update, e)
		}
	}
}
