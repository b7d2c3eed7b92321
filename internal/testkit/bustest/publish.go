package bustest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

func fetchAll(t testing.TB, b bus.Bus, topic event.Topic) []event.Event {
	t.Helper()
	var out []event.Event
	var after bus.Position
	for {
		var got []bus.Delivery
		until(t, "the log can be read", func() bool { // a broker can be away for a moment
			var err error
			if got, err = b.Fetch(context.Background(), topic, after, 100); err != nil && fault.KindOf(err) != fault.Unavailable {
				t.Fatalf("fetch after %q: %v", after, err)
			}
			return err == nil
		})
		if len(got) == 0 {
			return out
		}
		for _, d := range got {
			out = append(out, d.Event)
			after = d.Position
		}
	}
}

func roundTrip(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	want := Events(Topic, "e", 3)
	want[1].Headers, want[1].Key, want[1].Lane = nil, "", ""
	want[2].Data = []byte(`{"text":"ä\u0000\"","n":[1,2.50]}`)
	publish(t, e.Bus, want...)
	if diff := cmp.Diff(want, fetchAll(t, e.Bus, Topic), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("events changed on the way (-want +got):\n%s", diff)
	}
	last, err := e.Bus.Last(context.Background(), Topic)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Bus.Fetch(context.Background(), Topic, last, 10); err != nil || len(got) != 0 {
		t.Errorf("after the last position: %v, %v; want nothing", got, err)
	}
	for n, first := range map[int]int{1: 2, 2: 1, 3: 0, 10: 0} {
		back, err := e.Bus.Back(context.Background(), Topic, n)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Bus.Fetch(context.Background(), Topic, back, 10); err != nil || len(got) != len(want)-first || got[0].ID != want[first].ID {
			t.Errorf("the newest %d: %v, %v", n, got, err)
		}
	}
	if p, err := e.Bus.Back(context.Background(), "test.empty", 5); p != "" || err != nil {
		t.Errorf("Back of an empty topic = %q, %v; want \"\"", p, err)
	}
	if p, err := e.Bus.Last(context.Background(), "test.empty"); p != "" || err != nil {
		t.Errorf("Last of an empty topic = %q, %v; want \"\"", p, err)
	}
}

func sameID(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	first := Event(Topic, "same", "l")
	publish(t, e.Bus, first)
	publish(t, e.Bus, Event(Topic, "same", "l"), Event(Topic, "other", "l"))
	publish(t, e.Bus, Event("test.elsewhere", "same", "l"))
	if diff := cmp.Diff([]string{"same", "other"}, ids(fetchAll(t, e.Bus, Topic))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := fetchAll(t, e.Bus, "test.elsewhere"); len(got) != 1 {
		t.Errorf("an id is unique in its topic only: got %d events elsewhere, want 1", len(got))
	}
}

func allOrNone(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	bad := event.Event{ID: "bad", Topic: Topic, Type: event.CmdRequestMessage, Data: []byte("{}")}
	err := e.Bus.Publish(context.Background(), Event(Topic, "good", "l"), bad)
	if fault.KindOf(err) != fault.Invalid {
		t.Errorf("publish of an event without its headers: %v, want invalid", err)
	}
	if got := fetchAll(t, e.Bus, Topic); len(got) != 0 {
		t.Errorf("%d events were published of a batch that was refused", len(got))
	}
	publish(t, e.Bus, Event(Topic, "after", "l"))
	if diff := cmp.Diff([]string{"after"}, ids(fetchAll(t, e.Bus, Topic))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func inTransaction(t *testing.T, open func(testing.TB) Engine) {
	e := open(t)
	ctx := context.Background()
	stop := errors.New("stop")
	for _, step := range []struct {
		id  string
		err error
	}{{"rolled-back", stop}, {"committed", nil}, {"rolled-back-too", stop}, {"committed-too", nil}} {
		err := e.DB.Update(ctx, func(tx *db.Tx) error {
			if err := tx.Publish(Event(Topic, step.id, "l")); err != nil {
				return err
			}
			return step.err
		})
		if !errors.Is(err, step.err) {
			t.Fatalf("update %s: %v, want %v", step.id, err, step.err)
		}
	}
	until(t, "both events are on the bus", func() bool { return len(fetchAll(t, e.Bus, Topic)) == 2 })
	if diff := cmp.Diff([]string{"committed", "committed-too"}, ids(fetchAll(t, e.Bus, Topic))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
