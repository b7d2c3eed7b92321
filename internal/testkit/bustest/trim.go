package bustest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

func trim(t testing.TB, b bus.Bus) int64 {
	t.Helper()
	n, err := b.Trim(context.Background())
	if err != nil {
		t.Fatalf("trim: %v", err)
	}
	return n
}

// week is longer than the age that engines keep events for.
const week = 7*24*time.Hour + time.Hour

func trimKeeps(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	gate := make(chan struct{})
	var s seen
	sub := work("g")
	sub.Timeout = time.Hour
	subscribe(t, e.Bus, sub, func(_ context.Context, d bus.Delivery) error {
		if d.ID == "e2" {
			<-gate
		}
		s.add(d)
		return nil
	})
	publish(t, e.Bus, Events(Topic, "e", 6, "x", "y")...)
	until(t, "all but the blocked lane is handled", func() bool { return s.count() == 4 })
	until(t, "they are committed", func() bool {
		g, err := e.Bus.Groups(context.Background())
		return err == nil && g[0].Pending == 2
	})
	e.Advance(week)
	if n := trim(t, e.Bus); n != 2 {
		t.Errorf("removed %d, want the 2 before the first that is not committed", n)
	}
	close(gate)
	until(t, "the rest is handled", func() bool { return s.count() == 6 })
	until(t, "it can be removed", func() bool {
		trim(t, e.Bus)
		last, _ := e.Bus.Fetch(context.Background(), Topic, "", 9)
		return len(last) == 0
	})
	publish(t, e.Bus, Event(Topic, "young", "x"))
	if n := trim(t, e.Bus); n != 0 {
		t.Errorf("removed %d young events", n)
	}
}

func trimTold(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	publish(t, e.Bus, Events(Topic, "old", 5)...)
	got, err := e.Bus.Fetch(ctx, Topic, "", 5)
	if err != nil {
		t.Fatal(err)
	}
	e.Advance(week)
	publish(t, e.Bus, Event(Topic, "new", "l"))
	if n := trim(t, e.Bus); n != 5 {
		t.Fatalf("removed %d, want 5", n)
	}
	if _, err := e.Bus.Fetch(ctx, Topic, got[1].Position, 5); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("fetch behind removed events: %v, want ErrTrimmed", err)
	}
	if err := e.Bus.Tail(ctx, bus.Tail{Topic: Topic, After: got[1].Position}, nil); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("tail behind removed events: %v, want ErrTrimmed", err)
	}
	for name, after := range map[string]bus.Position{"the last removed": got[4].Position, "the beginning": ""} {
		rest, err := e.Bus.Fetch(ctx, Topic, after, 5)
		if err != nil || len(rest) != 1 || rest[0].ID != "new" {
			t.Errorf("fetch after %s: %v, %v; want the new event", name, rest, err)
		}
	}
}

func outputExpires(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	topic := event.OutputTopic("web:s:1")
	publish(t, e.Bus, Events(topic, "a", 3)...)
	e.Advance(20 * time.Hour)
	publish(t, e.Bus, Events(topic, "b", 1)...)
	said, err := e.Bus.Fetch(ctx, topic, "", 5)
	if err != nil || len(said) != 4 {
		t.Fatalf("%d events are there, %v; want 4", len(said), err)
	}
	e.Advance(20 * time.Hour)
	if n := trim(t, e.Bus); n != 0 {
		t.Errorf("removed %d events of an output that was appended to 20 h ago", n)
	}
	e.Advance(5 * time.Hour)
	if n := trim(t, e.Bus); n != 4 && !e.OutputsExpireAlone {
		t.Errorf("removed %d, want all 4", n)
	}
	if _, err := e.Bus.Fetch(ctx, topic, "", 5); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("an expired output from its beginning: %v, want ErrTrimmed", err)
	}
	if _, err := e.Bus.Fetch(ctx, topic, said[1].Position, 5); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("an expired output from its middle: %v, want ErrTrimmed", err)
	}
}

func outputLost(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	topic := event.OutputTopic("web:s:1")
	publish(t, e.Bus, Events(topic, "a", 3)...)
	e = e.LoseOutputs(t)
	if got, err := e.Bus.Fetch(ctx, topic, "", 5); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("fetch of a lost output from its beginning: %v, %v; want ErrTrimmed", got, err)
	}
	if err := e.Bus.Tail(ctx, bus.Tail{Topic: topic}, nil); !errors.Is(err, bus.ErrTrimmed) {
		t.Errorf("tail of a lost output from its beginning: %v, want ErrTrimmed", err)
	}
	// The control: a tail of an output that never existed waits for it.
	other := event.OutputTopic("web:s:2")
	if got, err := e.Bus.Fetch(ctx, other, "", 5); err != nil || len(got) != 0 {
		t.Errorf("fetch of an output that never was: %v, %v; want nothing", got, err)
	}
	waiting := tail(t, e.Bus, bus.Tail{Topic: other}, nil)
	publish(t, e.Bus, Event(other, "first", "l"))
	waiting.expect(t, []string{"first"})
	// Events that are published after the loss are readable.
	publish(t, e.Bus, Event(topic, "b0", "l"))
	if got, err := e.Bus.Fetch(ctx, topic, "", 5); err != nil || len(got) != 1 || got[0].ID != "b0" {
		t.Errorf("fetch of what came after the loss: %v, %v", got, err)
	}
}

func silentGroup(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	if err := e.Bus.Declare(context.Background(), work("silent")); err != nil {
		t.Fatal(err)
	}
	publish(t, e.Bus, Events(Topic, "e", 3)...)
	e.Advance(week - 2*time.Hour)
	if n := trim(t, e.Bus); n != 0 {
		t.Errorf("removed %d although the group may still come", n)
	}
	e.Advance(3 * time.Hour)
	publish(t, e.Bus, Event(Topic, "later", "lane"))
	if n := trim(t, e.Bus); n != 3 {
		t.Errorf("removed %d, want 3: the group was silent for a week", n)
	}
	var s seen
	subscribe(t, e.Bus, work("silent"), collect(&s))
	until(t, "the group goes on with what is left", func() bool { return s.count() == 1 })
	if diff := cmp.Diff([]string{"later"}, s.ids()); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}
