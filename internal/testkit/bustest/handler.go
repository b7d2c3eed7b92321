package bustest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

func ackInTransaction(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	var tries atomic.Int64
	refuse := errors.New("refuse")
	sub := work("g")
	sub.Backoff = func(int) time.Duration { return time.Millisecond }
	subscribe(t, e.Bus, sub, func(_ context.Context, d bus.Delivery) error {
		n := tries.Add(1)
		return e.DB.Update(ctx, func(tx *db.Tx) error {
			if err := d.Ack(tx); err != nil {
				return err
			}
			if err := tx.Publish(Event("test.out", fmt.Sprint("out", n), "l")); err != nil {
				return err
			}
			if n < 3 {
				return refuse // rolls back the acknowledgement too
			}
			return nil
		})
	})
	publish(t, e.Bus, Event(Topic, "in", "l"))
	until(t, "nothing is pending", func() bool {
		g, err := e.Bus.Groups(ctx)
		return err == nil && len(g) == 1 && g[0].Pending == 0 && tries.Load() >= 3
	})
	until(t, "what the handler published is on the bus", func() bool { return len(fetchAll(t, e.Bus, "test.out")) > 0 })
	if diff := cmp.Diff([]string{"out3"}, ids(fetchAll(t, e.Bus, "test.out"))); diff != "" {
		t.Errorf("what the handler published (-want +got):\n%s", diff)
	}
	if tries.Load() != 3 {
		t.Errorf("%d tries, want 3", tries.Load())
	}
}

func retryLane(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var s seen
	release := make(chan struct{})
	sub := work("g")
	sub.Backoff = func(int) time.Duration { return 20 * time.Millisecond }
	subscribe(t, e.Bus, sub, func(_ context.Context, d bus.Delivery) error {
		if d.ID == "e0" {
			select {
			case <-release:
			default:
				if d.Attempt < 4 {
					return errors.New("not yet")
				}
				<-release
			}
		}
		s.add(d)
		return nil
	})
	events := Events(Topic, "e", 6, "bad", "good")
	publish(t, e.Bus, events...)
	until(t, "the other lane is done", func() bool { return s.count() == 3 })
	if diff := cmp.Diff([]string{"e1", "e3", "e5"}, s.ids()); diff != "" {
		t.Errorf("before the release (-want +got):\n%s", diff)
	}
	close(release)
	until(t, "all are done", func() bool { return s.count() == 6 })
	if diff := cmp.Diff([]string{"e0", "e2", "e4"}, s.ids()[3:]); diff != "" {
		t.Errorf("after the release (-want +got):\n%s", diff)
	}
}

func poison(t *testing.T, open func(testing.TB) Engine) {
	block := make(chan struct{})
	t.Cleanup(func() { close(block) })
	// Handlers that do not hang get a long timeout, so that slow machines pass.
	for name, row := range map[string]struct {
		timeout   time.Duration
		misbehave func(context.Context) error
	}{
		"fails":  {patience, func(context.Context) error { return errors.New("cannot") }},
		"panics": {patience, func(context.Context) error { panic("boom") }},
		"exits":  {patience, func(context.Context) error { runtime.Goexit(); return nil }},
		"hangs":  {500 * time.Millisecond, func(context.Context) error { <-block; return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			if row.timeout < patience {
				effort.SkipSlow(t)
			}
			poisoned(t, open(t), row.timeout, row.misbehave)
		})
	}
}

func poisoned(t *testing.T, e Engine, timeout time.Duration, misbehave func(context.Context) error) {
	ctx := context.Background()
	var tries atomic.Int64
	var healed atomic.Bool
	var s seen
	sub := work("g")
	sub.Timeout = timeout
	sub.Backoff = func(int) time.Duration { return time.Millisecond }
	subscribe(t, e.Bus, sub, func(ctx context.Context, d bus.Delivery) error {
		if d.ID == "poison" && !healed.Load() {
			if n := tries.Add(1); int64(d.Attempt) != n {
				t.Errorf("attempt %d of %d", d.Attempt, n)
			}
			return misbehave(ctx)
		}
		s.add(d)
		return nil
	})
	publish(t, e.Bus, Event(Topic, "poison", "l"), Event(Topic, "next", "l"))
	until(t, "the lane goes on", func() bool { return s.count() == 1 })
	if tries.Load() != 5 {
		t.Errorf("%d attempts, want exactly 5", tries.Load())
	}
	letters, err := e.Bus.DeadLetters(ctx, "", 10)
	if err != nil || len(letters) != 1 {
		t.Fatalf("dead letters: %v, %v; want one", letters, err)
	}
	got := letters[0]
	if got.Event.ID != "poison" || got.Group != "g" || got.Attempts != 5 || got.Reason == "" || got.At == 0 {
		t.Errorf("dead letter %+v", got)
	}
	if one, err := e.Bus.DeadLetter(ctx, got.ID); err != nil || one.Event.ID != "poison" {
		t.Errorf("DeadLetter: %+v, %v", one, err)
	}
	healed.Store(true)
	if err := e.Bus.Replay(ctx, got.ID); err != nil {
		t.Fatalf("replay: %v", err)
	}
	until(t, "the replayed event is handled", func() bool { return s.count() == 2 })
	if diff := cmp.Diff([]string{"next", "poison"}, s.ids()); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
	if _, err := e.Bus.DeadLetter(ctx, got.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a replayed dead letter is still there: %v", err)
	}
	if err := e.Bus.Drop(ctx, got.ID); fault.KindOf(err) != fault.NotFound {
		t.Errorf("dropping what is gone: %v, want not found", err)
	}
}

// poisonLoops is the control of poison: without a limit on attempts, the event is
// handled again and again.
func poisonLoops(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var tries atomic.Int64
	var s seen
	sub := work("g")
	sub.MaxAttempts = 1 << 20
	sub.Backoff = func(int) time.Duration { return time.Millisecond }
	subscribe(t, e.Bus, sub, func(_ context.Context, d bus.Delivery) error {
		if d.ID == "poison" {
			tries.Add(1)
			return errors.New("cannot")
		}
		s.add(d)
		return nil
	})
	publish(t, e.Bus, Event(Topic, "poison", "l"), Event(Topic, "next", "l"))
	until(t, "the poison is tried more often than allowed", func() bool { return tries.Load() > 10 })
	letters, err := e.Bus.DeadLetters(context.Background(), "", 10)
	if err != nil || len(letters) != 0 || s.count() != 0 {
		t.Errorf("dead letters %v, %v, handled %v; want none: the attempts are not what bounds poison", letters, err, s.ids())
	}
}

func permanent(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	var tries atomic.Int64
	var healed atomic.Bool
	var s seen
	subscribe(t, e.Bus, work("g"), func(_ context.Context, d bus.Delivery) error {
		if d.ID == "malformed" && !healed.Load() {
			tries.Add(1)
			return fmt.Errorf("handle: %w", bus.Permanent(errors.New("it makes no sense")))
		}
		s.add(d)
		return nil
	})
	publish(t, e.Bus, Event(Topic, "malformed", "l"), Event(Topic, "next", "l"))
	until(t, "the lane goes on", func() bool { return s.count() == 1 })
	letters, err := e.Bus.DeadLetters(ctx, "", 10)
	if err != nil || len(letters) != 1 {
		t.Fatalf("dead letters: %v, %v; want one", letters, err)
	}
	got := letters[0]
	if got.Event.ID != "malformed" || got.Attempts != 1 || got.Reason != "handle: it makes no sense" {
		t.Errorf("dead letter %+v; want the malformed event after one attempt with its reason", got)
	}
	if tries.Load() != 1 {
		t.Errorf("%d attempts, want 1", tries.Load())
	}
	healed.Store(true)
	if err := e.Bus.Replay(ctx, got.ID); err != nil {
		t.Fatalf("replay: %v", err)
	}
	until(t, "the replayed event is handled", func() bool { return s.count() == 2 })
}

func stopping(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	publishAfter := work("g")
	attempts := make(chan int, 10)
	for range 7 { // more often than there are attempts
		c := subscribe(t, e.Bus, publishAfter, func(ctx context.Context, d bus.Delivery) error {
			attempts <- d.Attempt
			<-ctx.Done()
			return ctx.Err()
		})
		publish(t, e.Bus, Event(Topic, "e", "l"))
		if got := receive(t, "the handler", attempts); got != 1 {
			t.Fatalf("attempt %d, want 1: stopping is not a failure", got)
		}
		c.end()
		e = e.Restart(t)
	}
}

func longWork(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var runs atomic.Int64
	const lease = 60 * time.Millisecond
	done := make(chan struct{})
	sub := work("g")
	sub.Lease = lease
	h := func(context.Context, bus.Delivery) error {
		runs.Add(1)
		time.Sleep(10 * lease)
		close(done)
		return nil
	}
	subscribe(t, e.Bus, sub, h)
	sub.Consumer = "other"
	subscribe(t, e.Bus, sub, h)
	publish(t, e.Bus, Event(Topic, "e", "l"))
	receive(t, "the long handler", done)
	until(t, "nothing is pending", func() bool {
		g, err := e.Bus.Groups(context.Background())
		return err == nil && g[0].Pending == 0
	})
	if runs.Load() != 1 {
		t.Errorf("%d runs, want 1", runs.Load())
	}
}

// longWorkGivenUp is the control of longWork: if nothing waits for the first consumer, a
// second one runs the same event again.
func longWorkGivenUp(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var runs atomic.Int64
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	sub := work("g")
	sub.Timeout = 20 * time.Millisecond
	sub.Backoff = func(int) time.Duration { return time.Millisecond }
	h := func(context.Context, bus.Delivery) error {
		runs.Add(1)
		<-release
		return nil
	}
	subscribe(t, e.Bus, sub, h)
	sub.Consumer = "other"
	subscribe(t, e.Bus, sub, h)
	publish(t, e.Bus, Event(Topic, "e", "l"))
	until(t, "the event is delivered twice", func() bool { return runs.Load() > 1 })
}
