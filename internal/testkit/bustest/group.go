package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

func work(group string) bus.Subscription {
	return bus.Subscription{Topic: Topic, Group: group, Mode: bus.Work, Consumer: "c"}
}

func collect(s *seen) bus.Handler {
	return func(_ context.Context, d bus.Delivery) error { s.add(d); return nil }
}

func sorted(in []string) []string { slices.Sort(in); return in }

func modes(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var a, b, f seen
	shared := work("shared")
	subscribe(t, e.Bus, shared, collect(&a))
	shared.Consumer = "c2"
	subscribe(t, e.Bus, shared, collect(&b))
	fan := work("fan")
	fan.Mode = bus.Fanout
	subscribe(t, e.Bus, fan, collect(&f))
	events := Events(Topic, "e", 60, "x", "y", "z")
	for _, ev := range events {
		publish(t, e.Bus, ev)
	}
	until(t, "the group has all", func() bool { return a.count()+b.count() >= len(events) && f.count() >= len(events) })
	want := sorted(ids(events))
	if diff := cmp.Diff(want, sorted(append(a.ids(), b.ids()...))); diff != "" {
		t.Errorf("a work group gets each event once (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, sorted(f.ids())); diff != "" {
		t.Errorf("a fanout id gets every event (-want +got):\n%s", diff)
	}
}

func declared(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	if err := e.Bus.Declare(context.Background(), work("early")); err != nil {
		t.Fatal(err)
	}
	events := Events(Topic, "e", 20)
	publish(t, e.Bus, events...)
	var early, late seen
	subscribe(t, e.Bus, work("early"), collect(&early))
	until(t, "the declared group has all", func() bool { return early.count() == len(events) })
	// The control: a group that was not declared before does miss them.
	subscribe(t, e.Bus, work("late"), collect(&late))
	publish(t, e.Bus, Event(Topic, "last", "l"))
	until(t, "both have the last", func() bool { return early.count() == len(events)+1 && late.count() >= 1 })
	if diff := cmp.Diff([]string{"last"}, late.ids()); diff != "" {
		t.Errorf("a group that was declared afterwards (-want +got):\n%s", diff)
	}
}

func newGroup(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	publish(t, e.Bus, Events(Topic, "old", 3)...)
	var atEnd, atBegin seen
	subscribe(t, e.Bus, work("end"), collect(&atEnd))
	begin := work("begin")
	begin.FromBegin = true
	subscribe(t, e.Bus, begin, collect(&atBegin))
	publish(t, e.Bus, Event(Topic, "new", "lane"))
	until(t, "both groups have the new event", func() bool { return atEnd.count() >= 1 && atBegin.count() >= 4 })
	if diff := cmp.Diff([]string{"new"}, atEnd.ids()); diff != "" {
		t.Errorf("from the end (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"old0", "old1", "old2", "new"}, atBegin.ids()); diff != "" {
		t.Errorf("from the beginning (-want +got):\n%s", diff)
	}
}

func laneOrder(t *testing.T, open func(testing.TB) Engine) {
	const lanes, each = 8, 40
	e := open(t)
	var s seen
	var running, most atomic.Int64
	var mu sync.Mutex
	busy := map[string]bool{}
	meet := make(chan struct{})
	sub := work("g")
	sub.Parallel = 4
	subscribe(t, e.Bus, sub, func(ctx context.Context, d bus.Delivery) error {
		mu.Lock()
		if busy[d.Lane] {
			t.Errorf("lane %s runs twice at once", d.Lane)
		}
		busy[d.Lane] = true
		mu.Unlock()
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		if d.ID == "e0" { // waits until another lane has run beside it
			select {
			case <-meet:
			case <-ctx.Done():
				return ctx.Err()
			}
		} else if d.ID == "e1" {
			close(meet)
		}
		s.add(d)
		running.Add(-1)
		mu.Lock()
		busy[d.Lane] = false
		mu.Unlock()
		return nil
	})
	var names []string
	for i := range lanes {
		names = append(names, fmt.Sprint("lane", i))
	}
	events := Events(Topic, "e", lanes*each, names...)
	for part := range slices.Chunk(events, 7) {
		publish(t, e.Bus, part...)
	}
	until(t, "all are handled", func() bool { return s.count() == len(events) })
	byLane := map[string][]string{}
	for _, d := range s.deliveries {
		byLane[d.Lane] = append(byLane[d.Lane], d.ID)
	}
	want := map[string][]string{}
	for _, ev := range events {
		want[ev.Lane] = append(want[ev.Lane], ev.ID)
	}
	if diff := cmp.Diff(want, byLane); diff != "" {
		t.Errorf("order within lanes (-want +got):\n%s", diff)
	}
	if most.Load() > 4 {
		t.Errorf("%d handlers ran side by side, allowed were 4", most.Load())
	}
}

func types(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var s seen
	sub := work("g")
	sub.Types = []event.Type{"test.wanted"}
	subscribe(t, e.Bus, sub, collect(&s))
	events := Events(Topic, "e", 10)
	events[7].Type = "test.wanted"
	publish(t, e.Bus, events...)
	until(t, "the wanted one is handled and nothing is left", func() bool {
		groups, err := e.Bus.Groups(context.Background())
		return err == nil && len(groups) == 1 && s.count() == 1 && groups[0].Pending == 0 && groups[0].Backlog == 0
	})
	if diff := cmp.Diff([]string{"e7"}, s.ids()); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}

func otherTypes(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var s seen
	a := work("g")
	a.Types = []event.Type{"test.happened", "test.wanted"}
	first := subscribe(t, e.Bus, a, collect(&s))
	publish(t, e.Bus, Event(Topic, "e0", "l"))
	until(t, "the first consumer is served", func() bool { return s.count() == 1 })
	b := work("g")
	b.Consumer, b.Types = "c2", []event.Type{"test.wanted"}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := e.Bus.Subscribe(ctx, b, collect(&s))
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "group g of "+string(Topic)) {
		t.Errorf("a consumer for other types: %v, want a conflict that names the group", err)
	}
	b.Types = []event.Type{"test.wanted", "test.happened"}
	second := subscribe(t, e.Bus, b, collect(&s))
	publish(t, e.Bus, Events(Topic, "more", 20, "x", "y")...)
	until(t, "the same types in another order are served", func() bool { return s.count() == 21 })
	first.end()
	second.end()
	b.Types = []event.Type{"test.wanted"}
	alone := subscribe(t, e.Bus, b, collect(&s))
	wanted := Event(Topic, "wanted", "l")
	wanted.Type = "test.wanted"
	publish(t, e.Bus, Event(Topic, "other", "l"), wanted)
	until(t, "alone it may care for what it likes", func() bool { return s.count() == 22 })
	if got := s.ids()[21]; got != "wanted" {
		t.Errorf("handled %s, want the event of the type it cares for", got)
	}
	alone.end()
}

func typesChange(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var tries atomic.Int64
	sub := work("g")
	first := subscribe(t, e.Bus, sub, func(context.Context, bus.Delivery) error {
		tries.Add(1)
		return errors.New("not now")
	})
	publish(t, e.Bus, Event(Topic, "e", "l"))
	until(t, "it was tried", func() bool { return tries.Load() > 0 })
	first.end()
	var s seen
	sub.Types = []event.Type{"test.wanted"}
	subscribe(t, e.Bus, sub, collect(&s))
	until(t, "nothing is pending", func() bool {
		g, err := e.Bus.Groups(context.Background())
		return err == nil && len(g) == 1 && g[0].Pending == 0 && g[0].Backlog == 0
	})
	if s.count() != 0 {
		t.Errorf("handled %v, which it does not care for", s.ids())
	}
}

func dropGroup(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	var s seen
	c := subscribe(t, e.Bus, work("g"), collect(&s))
	publish(t, e.Bus, Event(Topic, "e", "l"))
	until(t, "it is handled", func() bool { return s.count() == 1 })
	if err := e.Bus.DropGroup(ctx, Topic, "g"); fault.KindOf(err) != fault.Conflict {
		t.Errorf("dropping a group that is served: %v, want a conflict", err)
	}
	c.end()
	if err := e.Bus.DropGroup(ctx, Topic, "g"); err != nil {
		t.Errorf("drop: %v", err)
	}
	if err := e.Bus.DropGroup(ctx, Topic, "g"); fault.KindOf(err) != fault.NotFound {
		t.Errorf("dropping it again: %v, want not found", err)
	}
	if groups, err := e.Bus.Groups(ctx); err != nil || len(groups) != 0 {
		t.Errorf("groups: %v, %v; want none", groups, err)
	}
}

// dropWhileJoining drops a group repeatedly while a consumer subscribes. Dropping may
// fail with a conflict, but every subscriber must have a group afterwards.
func dropWhileJoining(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	sub := work("g")
	sub.FromBegin = true
	for n := range 20 {
		var s seen
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 5 {
				err := e.Bus.DropGroup(ctx, Topic, "g")
				if k := fault.KindOf(err); err != nil && k != fault.Conflict && k != fault.NotFound {
					t.Errorf("drop: %v", err)
				}
			}
		}()
		c := subscribe(t, e.Bus, sub, collect(&s))
		<-done
		id := fmt.Sprint("e", n)
		publish(t, e.Bus, Event(Topic, id, "l"))
		until(t, "the consumer is served", func() bool { return slices.Contains(s.ids(), id) })
		c.end()
	}
}

func groupRestart(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	var s seen
	events := Events(Topic, "e", 200, "x", "y", "z")
	c := subscribe(t, e.Bus, work("g"), collect(&s))
	publish(t, e.Bus, events[:100]...)
	until(t, "some are handled", func() bool { return s.count() > 10 })
	c.end()
	e = e.Restart(t)
	publish(t, e.Bus, events[100:]...)
	subscribe(t, e.Bus, work("g"), collect(&s))
	until(t, "all are handled", func() bool { return s.count() >= len(events) })
	if diff := cmp.Diff(sorted(ids(events)), sorted(s.ids())); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}
