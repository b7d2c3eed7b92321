package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
)

// mixedTopic is what is known of a topic that many publish to.
type mixedTopic struct {
	name event.Topic
	// publishing is held by who publishes a batch until it is accepted, trying by who tries
	// to and notes that it is.
	publishing, trying sync.RWMutex

	mu       sync.Mutex
	accepted []string
	// early were accepted by an earlier process, which alone could give them back;
	// excused are those that Redis may lack.
	early, excused map[string]bool
	tailed         []string
	places         map[string]bus.Position
	wrong          []string
}

// assignPositions tails a topic, through all processes. Who is told that events are gone begins
// again, and may see what it saw at the same place.
func (m *mixed) follow(ctx context.Context, p *mixedTopic) {
	var after bus.Position
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		e := m.process.Load()
		if e == nil {
			continue
		}
		err := e.bus.Tail(ctx, bus.Tail{Topic: p.name, After: after}, func(d bus.Delivery) error {
			after = d.Position
			p.mu.Lock()
			defer p.mu.Unlock()
			switch before, seen := p.places[d.ID]; {
			case !seen:
				p.tailed, p.places[d.ID] = append(p.tailed, d.ID), d.Position
			case before != d.Position:
				p.wrong = append(p.wrong, fmt.Sprintf("the tail of %s: %s is there twice, at %s and %s", p.name, d.ID, before, d.Position))
			}
			return nil
		})
		if errors.Is(err, bus.ErrTrimmed) {
			after = ""
		}
	}
}

// publish publishes until ctx ends, and counts what was accepted: some of it in a
// transaction, some cut off and tried again, some once more.
func (m *mixed) publish(ctx context.Context, n int, seed uint64, count *atomic.Int64) {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	var events []event.Event
	var by *process // that accepted them
	for i := 0; ctx.Err() == nil; count.Add(1) {
		if by == nil || random.IntN(8) > 0 {
			by = nil
			topic := mixedTopics[random.IntN(len(mixedTopics))]
			events = nil
			for range 1 + random.IntN(3) {
				events = append(events, bustest.Event(topic, fmt.Sprintf("%d:%d", n, i), "l"))
				i++
			}
		}
		by = m.batch(ctx, events, by, random)
	}
}

// batch publishes events until a process has accepted them, which it returns. What was
// accepted by one is published again to that one only, as long as it is there: for another
// it may rightly be new.
func (m *mixed) batch(ctx context.Context, events []event.Event, by *process, random *rand.Rand) *process {
	p := m.topics[events[0].Topic]
	p.publishing.RLock()
	defer p.publishing.RUnlock()
	for first := by == nil; ; first = false {
		now := m.process.Load()
		if by != nil && (now != by || p.mayBeGone(events[0].ID)) {
			return nil
		}
		if now == nil || now.bus.Unsent() > aheadMost {
			if ctx.Err() != nil {
				return nil
			}
			time.Sleep(time.Millisecond)
			continue
		}
		err := m.try(now, p, events, random, first, by != nil)
		if err == nil {
			return now
		}
		time.Sleep(time.Millisecond)
		if now == m.process.Load() && !errors.Is(err, context.DeadlineExceeded) { // else it was just closed
			m.t.Errorf("publish: %v", err)
			return nil
		}
	}
}

// try waits until Redis has the events, but for those that nothing of can be on its way from
// before: who deletes an output waits for what was published to it.
func (m *mixed) try(to *process, p *mixedTopic, events []event.Event, random *rand.Rand, first, again bool) (err error) {
	p.trying.RLock()
	defer p.trying.RUnlock()
	ctx, cut := context.WithCancel(context.Background())
	defer cut()
	switch way := random.IntN(8); {
	case way == 0 && first:
		err = to.db.Update(ctx, func(tx *db.Tx) error { return tx.Publish(events...) })
	case way == 1:
		ctx, cut = context.WithTimeout(ctx, time.Duration(random.IntN(2000))*time.Microsecond)
		defer cut()
		fallthrough
	default:
		err = to.bus.Publish(ctx, events...)
	}
	if err == nil && !again {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range events {
			p.accepted = append(p.accepted, e.ID)
		}
	}
	return err
}

func (p *mixedTopic) all() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]bool, len(p.accepted))
	for _, id := range p.accepted {
		all[id] = true
	}
	return all
}

// unseen is how many of these the tail has not seen.
func (p *mixedTopic) unseen(ids map[string]bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range ids {
		if _, seen := p.places[id]; !seen {
			n++
		}
	}
	return n
}

func (p *mixedTopic) excuse(ids map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.excused, ids)
}

func (p *mixedTopic) mayBeGone(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.excused[id]
}
