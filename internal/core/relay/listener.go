package relay

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

// listener reads the output of a request from the bus.
type listener struct {
	bus       bus.Log
	requestID string
	logger    *slog.Logger
	// notify wakes the follower after each change.
	notify func()

	mu sync.Mutex
	// output is what was read, heard when the last event was read.
	output Output
	heard  time.Time
	// position is where reading resumes.
	position bus.Position
	// delayed reports that the rest cannot be read now. If unreadable is set, it
	// never can be.
	delayed    bool
	unreadable error
}

// heardOutput is a snapshot of a listener.
type heardOutput struct {
	Output
	at                  time.Time
	delayed, unreadable bool
}

// snapshot returns the output that was read so far. Later events do not change it.
func (l *listener) snapshot() heardOutput {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.output
	o.Tools, o.Binaries, o.Anchors = slices.Clone(o.Tools), slices.Clone(o.Binaries), maps.Clone(o.Anchors)
	return heardOutput{Output: o, at: l.heard, delayed: l.delayed, unreadable: l.unreadable != nil}
}

// apply adds events that were read elsewhere.
func (l *listener) apply(payloads []event.Payload) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range payloads {
		l.output.Apply(p)
	}
}

// run reads the output topic from its beginning. If the beginning was trimmed,
// later events may still follow; if the bus is unavailable, reading is retried.
func (l *listener) run(ctx context.Context) {
	for {
		err := l.tail(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		trimmed, damaged := errors.Is(err, bus.ErrTrimmed), db.IsDamaged(err)
		l.mu.Lock()
		first := !trimmed && !damaged && !l.delayed
		if trimmed {
			l.position = ""
		}
		if trimmed || damaged {
			l.unreadable, l.delayed = err, false
		} else {
			// Without the bus, silence is not the request's fault.
			l.delayed, l.heard = true, time.Now()
		}
		l.mu.Unlock()
		l.notify()
		if damaged {
			return
		}
		if first {
			l.logger.WarnContext(ctx, "cannot read an output; retrying", "request_id", l.requestID, "error", err)
		}
		if !delay.Wait(ctx, retryPause) {
			return
		}
	}
}

func (l *listener) tail(ctx context.Context) error {
	l.mu.Lock()
	after := l.position
	l.mu.Unlock()
	ready := func() {
		l.mu.Lock()
		l.delayed = false
		l.mu.Unlock()
		l.notify()
	}
	return l.bus.Tail(ctx, bus.Tail{Topic: event.OutputTopic(l.requestID), After: after, Ready: ready}, func(d bus.Delivery) error {
		payload, err := event.Decode(d.Event)
		if err != nil {
			l.logger.WarnContext(ctx, "skipping an output event that cannot be decoded", "request_id", l.requestID, "event_id", d.ID, "error", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.position = d.Position
		if err != nil {
			return nil
		}
		l.output.Apply(payload)
		l.heard, l.unreadable = time.Now(), nil
		l.notify()
		return nil
	})
}
