package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/effort"
)

// Abilities are the guarantees of an engine beyond the contract.
type Abilities struct {
	// SharedTransaction: an acknowledgement commits with the handler's writes.
	// Without it the acknowledgement follows, and the suite expects that an
	// event can come twice after a crash between the two.
	SharedTransaction bool
	// OutputsExpireAlone: an output topic expires at its age without a call of Trim.
	OutputsExpireAlone bool
}

// Engine is an open engine on its own storage.
type Engine struct {
	Bus bus.Bus
	DB  *db.DB
	Abilities
	// Restart closes the engine and opens it again on the same storage.
	Restart func(t testing.TB) Engine
	// Close closes it before the test ends.
	Close func(t testing.TB)
	// Reopen closes the bus and opens it again; the database stays open.
	Reopen func(t testing.TB) Engine
	// Remember saves the state of the log. Forget loses all later appends, or
	// everything. Both are nil if the log is in the database.
	Remember func()
	Forget   func(everything bool)
	// LoseOutputs reopens the engine after its output topics were lost in a way that is
	// possible for this engine.
	LoseOutputs func(t testing.TB) Engine
	// Advance moves the clock of ages, leases and retries.
	Advance func(d time.Duration)
}

// Long reports whether the long forms of the tests were requested.
func Long() bool { return effort.Long() }

// patience is the timeout for something that must happen.
const patience = time.Minute

// Topic is the topic that the suite publishes to.
const Topic event.Topic = "test.topic"

// Event returns a test event.
func Event(topic event.Topic, id, lane string) event.Event {
	return event.Event{
		ID: id, Topic: topic, Type: "test.happened", TS: 1_700_000_000_000, Key: "k-" + lane, Lane: lane,
		Headers: event.Headers{"n": id}, Data: fmt.Appendf(nil, `{"id":%q}`, id),
	}
}

// Events returns n test events, alternating between the lanes.
func Events(topic event.Topic, prefix string, n int, lanes ...string) []event.Event {
	if len(lanes) == 0 {
		lanes = []string{"lane"}
	}
	out := make([]event.Event, n)
	for i := range out {
		out[i] = Event(topic, fmt.Sprintf("%s%d", prefix, i), lanes[i%len(lanes)])
	}
	return out
}

// consuming is a subscription that runs until it is stopped.
type consuming struct {
	t    testing.TB
	stop context.CancelFunc
	done chan error
	once sync.Once
}

func subscribe(t testing.TB, b bus.Bus, s bus.Subscription, h bus.Handler) *consuming {
	t.Helper()
	if err := b.Declare(context.Background(), s); err != nil {
		t.Fatalf("declare: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &consuming{t: t, stop: cancel, done: make(chan error, 1)}
	go func() { c.done <- b.Subscribe(ctx, s, h) }()
	t.Cleanup(c.end)
	return c
}

func (c *consuming) end() {
	c.once.Do(func() {
		c.stop()
		select {
		case err := <-c.done:
			if err != nil {
				c.t.Errorf("Subscribe returned %v, want nil after its context ended", err)
			}
		case <-time.After(patience):
			c.t.Error("Subscribe did not return after its context ended")
		}
	})
}

// until polls ok until it returns true, and fails the test after a timeout.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %v: %s", patience, what)
		}
	}
}

func receive[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v in vain for %s", patience, what)
		panic("unreachable")
	}
}

func publish(t testing.TB, b bus.Bus, events ...event.Event) {
	t.Helper()
	if err := b.Publish(context.Background(), events...); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

// seen collects the deliveries of handlers.
type seen struct {
	mu         sync.Mutex
	deliveries []bus.Delivery
}

func (s *seen) add(d bus.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliveries = append(s.deliveries, d)
}

func (s *seen) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]string, len(s.deliveries))
	for i, d := range s.deliveries {
		out[i] = d.ID
	}
	return out
}

func (s *seen) count() int { return len(s.ids()) }

func ids(events []event.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}
