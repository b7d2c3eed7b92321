package session

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

const (
	// minInterval is the minimum time between two publications of one stream.
	minInterval = 40 * time.Millisecond
	// streamRate is how many publications per second all streams make together. Each
	// one adds rows that are kept for a day. The design allows 5,000; fewer cost less
	// per token, and with a thousand streams each still publishes 3.5 times a second.
	streamRate = 3500
	// roundTime is the minimum time between two rounds with roundStreams live outputs
	// or more, and proportionally less with fewer. Outputs that become due meanwhile
	// share a transaction. The first word after a silence is published at once.
	roundTime    = 10 * time.Millisecond
	roundStreams = 500
	// roundMax is the maximum number of outputs in a round. It bounds the round's
	// transaction, and thereby how long the writes of runs wait for it.
	roundMax = 256
	// roundRetry is the delay before a failed publication is retried.
	roundRetry = time.Second
	// activityInterval is how long an output may be silent before it publishes an
	// activity event.
	activityInterval = 30 * time.Second
)

// publisher publishes the text of all live outputs: one goroutine and one transaction
// for all outputs that are due, instead of one for each stream.
type publisher struct {
	svc  *Service
	wake chan struct{}

	mu sync.Mutex
	// live holds all outputs, ordered by the time at which they may publish or have
	// been silent for activityInterval.
	live outputHeap
}

func newPublisher(s *Service) *publisher {
	return &publisher{svc: s, wake: make(chan struct{}, 1)}
}

// interval is the time between two publications of one stream.
func (p *publisher) interval() time.Duration {
	return max(minInterval, time.Duration(p.svc.streams.Load())*time.Second/streamRate)
}

// round is the time between two rounds.
func (p *publisher) round() time.Duration {
	return min(roundTime, time.Duration(p.svc.streams.Load())*roundTime/roundStreams)
}

// add starts publishing o. The caller must call remove.
func (p *publisher) add(o *output) {
	p.svc.streams.Add(1)
	o.due = p.svc.opt.Now().Add(activityInterval)
	p.mu.Lock()
	heap.Push(&p.live, o)
	p.mu.Unlock()
	p.notify()
}

// remove returns when the publisher no longer uses o.
func (p *publisher) remove(o *output) {
	p.svc.streams.Add(-1)
	o.pubMu.Lock() // wait for a round that publishes o
	defer o.pubMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Remove(&p.live, o.index)
	o.index = notScheduled
}

// schedule makes o due at a time, unless it is due earlier.
func (p *publisher) schedule(o *output, due time.Time) {
	p.mu.Lock()
	first := false
	if o.index != notScheduled && due.Before(o.due) {
		o.due = due
		heap.Fix(&p.live, o.index)
		first = o.index == 0
	}
	p.mu.Unlock()
	if first {
		p.notify()
	}
}

func (p *publisher) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	timer := time.NewTimer(activityInterval)
	defer timer.Stop()
	for {
		begun := time.Now()
		round, wait := p.takeDue(p.svc.opt.Now())
		if len(round) > 0 {
			p.publishRound(ctx, round)
			if !delay.Wait(ctx, p.round()-time.Since(begun)) {
				return
			}
			continue
		}
		var due <-chan time.Time // blocks for ever if there is no live output
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-due:
		}
	}
}

// takeDue returns the outputs that are due, with their pubMu locked. Without any, it
// returns how long none will be due; 0 means that there are no outputs.
func (p *publisher) takeDue(now time.Time) (round []*output, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.live) > 0 && len(round) < roundMax {
		o := p.live[0]
		if wait := o.due.Sub(now); wait > 0 {
			return round, wait
		}
		if o.pubMu.TryLock() {
			round = append(round, o)
			o.scheduled.Store(false)
			o.due = now.Add(activityInterval)
		} else {
			// A transaction of its run publishes the buffer right now.
			o.due = now.Add(roundTime)
		}
		heap.Fix(&p.live, 0)
	}
	return round, 0
}

// publishRound publishes the outputs of a round and unlocks them. If the publication
// fails, it publishes each output alone, because one of them may be the cause.
func (p *publisher) publishRound(ctx context.Context, round []*output) {
	defer func() {
		for _, o := range round {
			o.pubMu.Unlock()
		}
	}()
	now := p.svc.opt.Now()
	var events []event.Event
	sending := make([]*output, 0, len(round))
	for _, o := range round {
		some, err := o.collectOrHeartbeat(now)
		switch {
		case err != nil:
			p.retryLater(ctx, o, err)
		case len(some) > 0:
			events, sending = append(events, some...), append(sending, o)
		}
	}
	if len(events) == 0 {
		return
	}
	err := p.svc.opt.Bus.Publish(ctx, events...)
	if err != nil && len(sending) > 1 {
		err = nil
		alone := sending
		sending = sending[:0:0]
		for _, o := range alone {
			if one := p.svc.opt.Bus.Publish(ctx, o.unsent...); one != nil {
				p.retryLater(ctx, o, one)
				continue
			}
			sending = append(sending, o)
		}
	}
	if err != nil {
		p.retryLater(ctx, sending[0], err)
		return
	}
	var first []*output
	for _, o := range sending {
		o.markSent()
		if o.hasDelta && !o.streaming {
			first = append(first, o)
		}
	}
	if len(first) == 0 {
		return
	}
	if err := p.svc.markStreaming(ctx, first); err != nil && ctx.Err() == nil {
		// The next delta retries it.
		p.svc.opt.Logger.Warn("cannot set the state streaming", "requests", len(first), "error", err)
	}
}

func (p *publisher) retryLater(ctx context.Context, o *output, err error) {
	if ctx.Err() != nil {
		return
	}
	p.svc.opt.Logger.Warn("cannot publish output; will retry", "request_id", o.headers.RequestID(), "error", fmt.Errorf("publish output: %w", err))
	o.scheduled.Store(true) // more text must not shorten the delay
	p.schedule(o, p.svc.opt.Now().Add(roundRetry))
}

// markStreaming sets the state of requests to streaming, after their first delta and
// without waiting for the disk: the first words must not wait, and the next delta
// retries it after a power failure.
func (s *Service) markStreaming(ctx context.Context, outputs []*output) error {
	err := s.opt.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		for _, o := range outputs {
			c := s.newChange(tx, o.headers.SessionID())
			if err := c.markStreaming(o.headers.RequestID()); err != nil {
				return err
			}
			if err := c.writeRequests(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("set the state streaming: %w", err)
	}
	for _, o := range outputs {
		o.streaming = true
	}
	return nil
}

// notScheduled is the index of an output that is not in the heap.
const notScheduled = -1

// outputHeap is a [heap.Interface] ordered by due time.
type outputHeap []*output

func (h outputHeap) Len() int           { return len(h) }
func (h outputHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h outputHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push implements [heap.Interface].
func (h *outputHeap) Push(x any) {
	o := x.(*output)
	o.index = len(*h)
	*h = append(*h, o)
}

// Pop implements [heap.Interface].
func (h *outputHeap) Pop() any {
	old := *h
	o := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return o
}
