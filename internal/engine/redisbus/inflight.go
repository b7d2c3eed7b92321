package redisbus

import (
	"errors"
	"slices"
)

// inFlightMax is the maximum number of batches in flight. With two, the next batch is
// already on the wire while Redis works on the first. If the second arrives first, Redis
// refuses it, because it names its predecessor (see appendScript).
const inFlightMax = 2

// inFlightBatch is a batch that was sent and not acknowledged. It holds only events
// without rows.
type inFlightBatch struct {
	items  []*item
	done   []*publishRequest
	script script
	// pipelined is set if another batch was in flight when this one was sent.
	pipelined bool
	answered  chan struct{} // closed when answer is set
	answer    scriptReply
}

// pipeline acknowledges batches with replies and sends waiting requests. If nothing is
// in flight, it sends them at once; otherwise only when they are about as many as the
// requests in flight, because many small batches cost more than one large batch.
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

// pipelineThreshold returns half of the estimated number of concurrent requests.
func (b *Bus) pipelineThreshold() int { return max(1, b.concurrency/2) }

// noteConcurrency updates the estimate of concurrent requests when a batch with the
// given number of requests is sent. The estimate rises at once and falls over several
// batches.
func (b *Bus) noteConcurrency(requests int) {
	for _, f := range b.inFlight {
		requests += len(f.done)
	}
	b.concurrency = max(requests+len(b.waiting)+len(b.queue), b.concurrency-(b.concurrency+7)/8)
}

// sendNext sends a batch of waiting requests without waiting for the reply.
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
		failAway(f.done) // nothing was sent
		return err
	}
	if len(f.items) == 0 { // a flush, and no committed rows are unsent
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

// ackOldest waits for the reply to the oldest batch and acknowledges the batch. If Redis
// refused the batch because of stale outputs or its order, ackOldest sends it and the
// following batches again.
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
	// Redis refused the following batches because of this one, or their result is unknown.
	items, done := b.awaitInFlight()
	switch {
	case errors.Is(err, errStale):
		b.clearPositions(items)
		err = b.deliver(items, done, false)
	case errors.Is(err, errNotWhole) && f.pipelined: // it may have overtaken its predecessor
		err = b.deliver(items, done, true)
	default:
		b.unanswered = items
	}
	if err != nil {
		failAway(done)
	}
	return err
}

// ackAll acknowledges all batches in flight.
func (b *Bus) ackAll() error {
	for len(b.inFlight) > 0 {
		if err := b.ackOldest(); err != nil {
			return err
		}
	}
	return nil
}

// awaitInFlight waits for all replies and returns the events and requests that were in
// flight.
func (b *Bus) awaitInFlight() (items []*item, done []*publishRequest) {
	for _, f := range b.inFlight {
		<-f.answered
		items, done = append(items, f.items...), append(done, f.done...)
	}
	b.inFlight = nil
	return items, done
}

// abandonInFlight gives up the batches in flight. Redis may have them, so they become
// unanswered.
func (b *Bus) abandonInFlight() {
	items, done := b.awaitInFlight()
	b.unanswered = append(b.unanswered, items...)
	failAway(done)
}
