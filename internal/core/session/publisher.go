package session

import (
	"container/heap"
	"context"
	"fmt"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

const (
	// minInterval is the least time between two publications of one stream.
	minInterval = 40 * time.Millisecond
	// streamRate is how many publications a second all streams make together:
	// each is rows that are kept for a day. The design allows 5,000; at fewer a
	// token costs less, and a reader of one in a thousand streams still sees
	// three or four pieces a second.
	streamRate = 3500
	// roundTime is the least time between two rounds of roundStreams outputs or
	// more, and less in proportion of fewer: what becomes due meanwhile shares a
	// transaction, and where little does, nobody has to wait for it. The first
	// word after a pause does not wait at all.
	roundTime    = 10 * time.Millisecond
	roundStreams = 500
	// roundMax bounds the streams of a round, and with them its transaction and
	// how long what is recorded meanwhile has to wait.
	roundMax = 256
	// roundRetry is how soon a stream that could not be published tries again.
	roundRetry = time.Second
	// activityInterval is how long an output may be silent.
	activityInterval = 30 * time.Second
)

// publisher publishes for all live outputs: one goroutine and one transaction
// for whatever is due, instead of one for each stream.
type publisher struct {
	svc  *Service
	wake chan struct{}

	mu sync.Mutex
	// live are all outputs, by when they are looked at next: when they may
	// publish what they have, or have been silent for too long.
	live outputHeap
}

func newPublisher(s *Service) *publisher {
	return &publisher{svc: s, wake: make(chan struct{}, 1)}
}

// interval paces a stream by how many there are.
func (f *publisher) interval() time.Duration {
	return max(minInterval, time.Duration(f.svc.streams.Load())*time.Second/streamRate)
}

// round paces the rounds by how many outputs there are.
func (f *publisher) round() time.Duration {
	return min(roundTime, time.Duration(f.svc.streams.Load())*roundTime/roundStreams)
}

// join begins to publish what o has. Whoever calls it calls leave.
func (f *publisher) add(o *output) {
	f.svc.streams.Add(1)
	o.due = f.svc.opt.Now().Add(activityInterval)
	f.mu.Lock()
	heap.Push(&f.live, o)
	f.mu.Unlock()
	f.notify()
}

// leave returns when nothing more of o is published here.
func (f *publisher) remove(o *output) {
	f.svc.streams.Add(-1)
	o.pubMu.Lock() // a round that holds o ends first
	defer o.pubMu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	heap.Remove(&f.live, o.index)
	o.index = notScheduled
}

// ready says that o has something to publish, not before due.
func (f *publisher) schedule(o *output, due time.Time) {
	f.mu.Lock()
	first := false
	if o.index != notScheduled && due.Before(o.due) {
		o.due = due
		heap.Fix(&f.live, o.index)
		first = o.index == 0
	}
	f.mu.Unlock()
	if first {
		f.notify()
	}
}

func (f *publisher) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run publishes until ctx ends.
func (f *publisher) run(ctx context.Context) {
	timer := time.NewTimer(activityInterval)
	defer timer.Stop()
	for {
		begun := time.Now()
		round, wait := f.takeDue(f.svc.opt.Now())
		if len(round) > 0 {
			f.publishRound(ctx, round)
			if !sleep(ctx, f.round()-time.Since(begun)) {
				return
			}
			continue
		}
		var due <-chan time.Time // never, while there is no live output
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-due:
		}
	}
}

// pick takes the outputs that are due, each with its lock to publish, or says
// how long none will be; 0 means that there is none at all.
func (f *publisher) takeDue(now time.Time) (round []*output, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.live) > 0 && len(round) < roundMax {
		o := f.live[0]
		if wait := o.due.Sub(now); wait > 0 {
			return round, wait
		}
		if o.pubMu.TryLock() {
			round = append(round, o)
			o.scheduled.Store(false)
			o.due = now.Add(activityInterval)
		} else {
			// It is being recorded, and what waits goes along.
			o.due = now.Add(roundTime)
		}
		heap.Fix(&f.live, 0)
	}
	return round, 0
}

// publish sends what the outputs of a round have and gives back their locks.
// When that fails as a whole, one of them may be the reason.
func (f *publisher) publishRound(ctx context.Context, round []*output) {
	defer func() {
		for _, o := range round {
			o.pubMu.Unlock()
		}
	}()
	now := f.svc.opt.Now()
	var events []event.Event
	sending := make([]*output, 0, len(round))
	for _, o := range round {
		some, err := o.collectOrHeartbeat(now)
		switch {
		case err != nil:
			f.retryLater(ctx, o, err)
		case len(some) > 0:
			events, sending = append(events, some...), append(sending, o)
		}
	}
	if len(events) == 0 {
		return
	}
	err := f.svc.opt.Bus.Publish(ctx, events...)
	if err != nil && len(sending) > 1 {
		err = nil
		alone := sending
		sending = sending[:0:0]
		for _, o := range alone {
			if one := f.svc.opt.Bus.Publish(ctx, o.unsent...); one != nil {
				f.retryLater(ctx, o, one)
				continue
			}
			sending = append(sending, o)
		}
	}
	if err != nil {
		f.retryLater(ctx, sending[0], err)
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
	if err := f.svc.markStreaming(ctx, first); err != nil && ctx.Err() == nil {
		// It is said again with the next words.
		f.svc.opt.Logger.Warn("state streaming is not shown", "requests", len(first), "error", err)
	}
}

func (f *publisher) retryLater(ctx context.Context, o *output, err error) {
	if ctx.Err() != nil {
		return
	}
	f.svc.opt.Logger.Warn("output waits", "request_id", o.headers.RequestID(), "error", fmt.Errorf("publish output: %w", err))
	o.scheduled.Store(true) // more text makes it no sooner
	f.schedule(o, f.svc.opt.Now().Add(roundRetry))
}

// showStreaming says that requests have begun to stream. It says so behind the
// first delta and without a wait for the disk: the first words must not wait,
// and what a power cut takes is said again with the next ones.
func (s *Service) markStreaming(ctx context.Context, outputs []*output) error {
	err := s.opt.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		for _, o := range outputs {
			c := change{svc: s, tx: tx, sessionID: o.headers.SessionID()}
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
		return fmt.Errorf("show state streaming: %w", err)
	}
	for _, o := range outputs {
		o.streaming = true
	}
	return nil
}

// notScheduled is the index of an output that no outflow has.
const notScheduled = -1

// outputHeap has the output that is due first at its front.
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
