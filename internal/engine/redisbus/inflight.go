package redisbus

import (
	"errors"
	"slices"
)

// inFlightMax is how many batches are on their way at a time: while Redis works on one,
// the next is written, and Redis does not wait for it. The second is refused should it
// come first, since it says which one Redis must have (see appendScript).
const inFlightMax = 2

// inFlightBatch is a batch on its way to Redis, of events without rows alone.
type inFlightBatch struct {
	items  []*item
	done   []*publishRequest
	script script
	// behind says that it was sent while another one was on its way.
	pipelined bool
	answered  chan struct{} // closed when answer is there
	answer    scriptReply
}

// fly takes what has been answered, and sends what waits: at once when nothing is on its
// way, and behind a batch that is, when it is about as large. Smaller ones cost more.
func (b *Bus) pipeline() error {
	for len(b.inFlight) > 0 {
		select {
		case <-b.inFlight[0].answered:
			if err := b.ackOldest(); err != nil {
				return err
			}
			continue
		default:
		}
		break
	}
	for len(b.waiting) > 0 && (len(b.inFlight) == 0 || len(b.inFlight) < inFlightMax && len(b.waiting) >= b.pipelineThreshold()) {
		if err := b.sendNext(); err != nil {
			return err
		}
	}
	return nil
}

// half is half of what publishers have on its way and waiting at a time.
func (b *Bus) pipelineThreshold() int { return max(1, b.concurrency/2) }

// count notes how much was on its way and waited when a batch of so many publish requests was sent.
// A crowd that gets smaller is noticed after some batches.
func (b *Bus) noteConcurrency(requests int) {
	for _, f := range b.inFlight {
		requests += len(f.done)
	}
	b.concurrency = max(requests+len(b.waiting)+len(b.queue), b.concurrency-(b.concurrency+7)/8)
}

// launch sends a batch and does not wait for the answer.
func (b *Bus) sendNext() error {
	f := &inFlightBatch{answered: make(chan struct{})}
	f.items, f.done = b.fill(nil)
	b.noteConcurrency(len(f.done))
	var err error
	if f.script, err = b.buildScript(b.ctx, f.items, false, false); errors.Is(err, errOutputUnread) || len(f.items) == 0 {
		if err = b.ackAll(); err == nil {
			f.script, err = b.buildScript(b.ctx, f.items, false, false)
		}
	}
	if err != nil {
		failAway(f.done) // nothing of it was sent
		return err
	}
	if len(f.items) == 0 { // a flush: nothing that was committed waits
		b.acknowledge(nil, f.done, b.link.acked.Load())
		return nil
	}
	least := b.link.acked.Load()
	if f.pipelined = len(b.inFlight) > 0; f.pipelined {
		least = b.inFlight[len(b.inFlight)-1].script.number
	}
	b.batch++
	f.script.field, f.script.least, f.script.number = batches, least, b.batch
	keys, args, size := b.arguments(f.script)
	b.inFlight = append(b.inFlight, f)
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
func (b *Bus) ackOldest() error {
	f := b.inFlight[0]
	<-f.answered
	err := b.applyReply(f.script, f.answer)
	if err == nil {
		b.inFlight = slices.Delete(b.inFlight, 0, 1)
		b.link.acked.Store(f.script.number)
		b.acknowledge(f.items, f.done, f.script.number)
		return nil
	}
	// What follows was refused for this one, or nobody knows.
	items, done := b.awaitInFlight()
	switch {
	case errors.Is(err, errStale):
		b.clearPositions(items)
		err = b.deliver(items, done, false)
	case errors.Is(err, errNotWhole) && f.pipelined: // it may have been too fast
		err = b.deliver(items, done, true)
	default:
		b.unanswered = items
	}
	if err != nil {
		failAway(done)
	}
	return err
}

// landAll takes the answers to all batches.
func (b *Bus) ackAll() error {
	for len(b.inFlight) > 0 {
		if err := b.ackOldest(); err != nil {
			return err
		}
	}
	return nil
}

// grounded waits for all replies and returns the events and requests that were in flight.
func (b *Bus) awaitInFlight() (items []*item, done []*publishRequest) {
	for _, f := range b.inFlight {
		<-f.answered
		items, done = append(items, f.items...), append(done, f.done...)
	}
	b.inFlight = nil
	return items, done
}

// ground gives up the batches in flight; whether Redis has them is unknown.
func (b *Bus) abandonInFlight() {
	items, done := b.awaitInFlight()
	b.unanswered = append(b.unanswered, items...)
	failAway(done)
}
