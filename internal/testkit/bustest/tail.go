package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// tailing is a tail that runs until the test ends.
type tailing struct {
	seen
	cancel context.CancelFunc
	done   chan error
}

func tail(t testing.TB, b bus.Bus, spec bus.Tail, each func(bus.Delivery)) *tailing {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tl := &tailing{cancel: cancel, done: make(chan error, 1)}
	ready := make(chan struct{})
	spec.Ready = func() { close(ready) }
	go func() {
		tl.done <- b.Tail(ctx, spec, func(d bus.Delivery) error {
			if each != nil {
				each(d)
			}
			tl.add(d)
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := receive(t, "the end of a tail", tl.done); err != nil {
			t.Errorf("Tail returned %v, want nil after its context ended", err)
		}
	})
	select {
	case <-ready:
	case err := <-tl.done:
		tl.done <- nil
		t.Fatalf("tail ended before it was ready: %v", err)
	}
	return tl
}

func (tl *tailing) expect(t testing.TB, want []string) {
	t.Helper()
	until(t, fmt.Sprintf("the tail has %d events", len(want)), func() bool { return tl.count() >= len(want) })
	if diff := cmp.Diff(want, tl.ids()); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

func tailStarts(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	publish(t, e.Bus, Events(Topic, "a", 3)...)
	got, err := e.Bus.Fetch(context.Background(), Topic, "", 2)
	if err != nil || len(got) != 2 {
		t.Fatalf("fetch: %v, %v", got, err)
	}
	begin := tail(t, e.Bus, bus.Tail{Topic: Topic}, nil)
	now := tail(t, e.Bus, bus.Tail{Topic: Topic, FromNow: true}, nil)
	after := tail(t, e.Bus, bus.Tail{Topic: Topic, After: got[1].Position}, nil)
	publish(t, e.Bus, Events(Topic, "b", 2)...)
	begin.expect(t, []string{"a0", "a1", "a2", "b0", "b1"})
	now.expect(t, []string{"b0", "b1"})
	after.expect(t, []string{"a2", "b0", "b1"})

	stop := errors.New("stop")
	if err := e.Bus.Tail(context.Background(), bus.Tail{Topic: Topic}, func(bus.Delivery) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("Tail returned %v, want the handler's error", err)
	}
}

func tailLane(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	publish(t, e.Bus, Events(Topic, "a", 4, "x", "y")...)
	tl := tail(t, e.Bus, bus.Tail{Topic: Topic, Lane: "y"}, nil)
	publish(t, e.Bus, Events(Topic, "b", 4, "x", "y")...)
	tl.expect(t, []string{"a1", "a3", "b1", "b3"})
}

func tailOverflow(t *testing.T, open func(testing.TB) Engine) {
	const n = 3000
	e := open(t)
	gate := make(chan struct{})
	slow := tail(t, e.Bus, bus.Tail{Topic: Topic, FromNow: true}, func(bus.Delivery) { <-gate })
	fast := tail(t, e.Bus, bus.Tail{Topic: Topic, FromNow: true}, nil)
	events := Events(Topic, "e", n, "x", "y")
	for i := 0; i < n; i += 50 {
		publish(t, e.Bus, events[i:i+50]...)
	}
	fast.expect(t, ids(events))
	if slow.count() != 0 {
		t.Error("the slow tail was not slow; the test shows nothing")
	}
	// The tail rejoins the queue while more events are published.
	more := Events(Topic, "more", 500)
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; i < len(more); i += 5 {
			publish(t, e.Bus, more[i:i+5]...)
		}
	})
	close(gate)
	writing.Wait()
	slow.expect(t, append(ids(events), ids(more)...))
}

func tailRestart(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	publish(t, e.Bus, Events(Topic, "a", 5)...)
	got, err := e.Bus.Fetch(context.Background(), Topic, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	e = e.Restart(t)
	tl := tail(t, e.Bus, bus.Tail{Topic: Topic, After: got[2].Position}, nil)
	publish(t, e.Bus, Events(Topic, "b", 1)...)
	tl.expect(t, []string{"a3", "a4", "b0"})
}

// Readers that share a wake-up channel get all existing and all new events, and nothing
// after they are closed.
func tailsAreRead(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	topics := []event.Topic{Topic, Topic + ".b", Topic + ".c"}
	wake := make(chan struct{}, 1)
	readers := make([]bus.Reader, len(topics))
	for i, topic := range topics {
		publish(t, e.Bus, Events(topic, "before", 2)...)
		r, err := e.Bus.Open(bus.Tail{Topic: topic}, wake)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		readers[i] = r
	}
	got := make([][]string, len(topics))
	// read reads all available events and returns the total that all readers have seen.
	read := func() (all int) {
		for i, r := range readers {
			for {
				d, ok, err := r.Next(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				got[i] = append(got[i], d.ID)
			}
			all += len(got[i])
		}
		return all
	}
	want := []string{"before0", "before1"}
	expect := func() {
		t.Helper()
		for deadline := time.After(patience); read() < len(topics)*len(want); {
			select {
			case <-wake:
			case <-deadline:
				t.Fatalf("nobody was woken: %v", got)
			}
		}
		for i := range got {
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("reader %d (-want +got):\n%s", i, diff)
			}
		}
	}
	expect()
	for round := range 20 {
		prefix := fmt.Sprintf("r%d-", round)
		for _, topic := range topics {
			publish(t, e.Bus, Events(topic, prefix, 1)...)
		}
		want = append(want, prefix+"0")
		expect()
	}
	for _, r := range readers {
		r.Close()
		r.Close()
	}
	select {
	case <-wake:
	default:
	}
	publish(t, e.Bus, Events(topics[0], "after", 1)...)
	control := tail(t, e.Bus, bus.Tail{Topic: topics[0]}, nil)
	control.expect(t, append(want, "after0"))
	select {
	case <-wake:
		t.Error("a closed reader was woken")
	default:
	}
}
