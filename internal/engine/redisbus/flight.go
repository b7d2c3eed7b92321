package redisbus

import (
	"errors"
	"slices"
)

// flightsMax is how many batches are on their way at a time: while Redis works on one,
// the next is written, and Redis does not wait for it. The second is refused should it
// come first, since it says which one Redis must have (see appendScript).
const flightsMax = 2

// flight is a batch on its way to Redis, of events without rows alone.
type flight struct {
	items  []*item
	done   []*parcel
	script script
	// behind says that it was sent while another one was on its way.
	behind   bool
	answered chan struct{} // closed when answer is there
	answer   answer
}

// fly takes what has been answered, and sends what waits: at once when nothing is on its
// way, and behind a batch that is, when it is about as large. Smaller ones cost more.
func (b *Bus) fly() error {
	for len(b.flights) > 0 {
		select {
		case <-b.flights[0].answered:
			if err := b.land(); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	for len(b.waiting) > 0 && (len(b.flights) == 0 || len(b.flights) < flightsMax && len(b.waiting) >= b.half()) {
		if err := b.launch(); err != nil {
			return err
		}
	}
	return nil
}

// half is half of what publishers have on its way and waiting at a time.
func (b *Bus) half() int { return max(1, b.population/2) }

// count notes how much was on its way and waited when a batch of so many parcels was sent.
// A crowd that gets smaller is noticed after some batches.
func (b *Bus) count(parcels int) {
	for _, f := range b.flights {
		parcels += len(f.done)
	}
	b.population = max(parcels+len(b.waiting)+len(b.hands), b.population-(b.population+7)/8)
}

// launch sends a batch and does not wait for the answer.
func (b *Bus) launch() error {
	f := &flight{answered: make(chan struct{})}
	f.items, f.done = b.fill(nil)
	b.count(len(f.done))
	var err error
	if f.script, err = b.sort(b.ctx, f.items, false, false); errors.Is(err, errUnread) || len(f.items) == 0 {
		if err = b.landAll(); err == nil {
			f.script, err = b.sort(b.ctx, f.items, false, false)
		}
	}
	if err != nil {
		refuse(f.done) // nothing of it was sent
		return err
	}
	if len(f.items) == 0 { // a flush: nothing that was committed waits
		b.settle(nil, f.done, b.link.acked.Load())
		return nil
	}
	least := b.link.acked.Load()
	if f.behind = len(b.flights) > 0; f.behind {
		least = b.flights[len(b.flights)-1].script.number
	}
	b.batch++
	f.script.field, f.script.least, f.script.number = batches, least, b.batch
	keys, args, size := b.arguments(f.script)
	b.flights = append(b.flights, f)
	b.work.Go(func() {
		defer close(f.answered)
		if b.opt.late != nil {
			b.opt.late()
		}
		f.answer = b.exchange(b.ctx, keys, args, size)
	})
	return nil
}

// land waits for the answer to the oldest batch and tells who is concerned. When Redis has
// nothing of it for a reason that is known, it and what follows it are sent again.
func (b *Bus) land() error {
	f := b.flights[0]
	<-f.answered
	err := b.arrived(f.script, f.answer)
	if err == nil {
		b.flights = slices.Delete(b.flights, 0, 1)
		b.link.acked.Store(f.script.number)
		b.settle(f.items, f.done, f.script.number)
		return nil
	}
	// What follows was refused for this one, or nobody knows.
	items, done := b.grounded()
	switch {
	case errors.Is(err, errStale):
		b.unplace(items)
		err = b.deliver(items, done, false)
	case errors.Is(err, errNotWhole) && f.behind: // it may have been too fast
		err = b.deliver(items, done, true)
	default:
		b.unanswered = items
	}
	if err != nil {
		refuse(done)
	}
	return err
}

// landAll takes the answers to all batches.
func (b *Bus) landAll() error {
	for len(b.flights) > 0 {
		if err := b.land(); err != nil {
			return err
		}
	}
	return nil
}

// grounded waits for all answers and returns what was on its way.
func (b *Bus) grounded() (items []*item, done []*parcel) {
	for _, f := range b.flights {
		<-f.answered
		items, done = append(items, f.items...), append(done, f.done...)
	}
	b.flights = nil
	return items, done
}

// ground gives up what is on its way: Redis may have it or not.
func (b *Bus) ground() {
	items, done := b.grounded()
	b.unanswered = append(b.unanswered, items...)
	refuse(done)
}
