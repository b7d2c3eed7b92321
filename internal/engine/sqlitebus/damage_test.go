package sqlitebus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/damagetest"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// D3: a flipped byte in a row of the log, or of the dead letters, is found and
// never served.
func TestFlippedBytesAreFound(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
	flips := 60
	switch {
	case bustest.Long():
		flips = 2000
	case testing.Short() || !effort.Full(): // -short is for the race detector, where more flips would find nothing new
		flips = 15
	}
	dir := t.TempDir()
	database, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	want := bustest.Events(bustest.Topic, "event-", 40)
	want[20].Data = fmt.Appendf(nil, "%q", strings.Repeat("long ", 3000))
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, want...); err != nil {
		t.Fatal(err)
	}
	handled := 0
	err := b.Subscribe(ctx, s, func(context.Context, bus.Delivery) error {
		if handled++; handled == len(want) {
			cancel()
		}
		return bus.Permanent(errors.New("to the dead letters"))
	})
	if err != nil {
		t.Fatal(err)
	}
	closeBus(t, database, b)
	damagetest.Case{
		Dir: dir, Migrations: sqlitebus.Migrations, Tables: []string{"bus_log", "bus_dead_letters"},
		Verify: withBus(func(ctx context.Context, b *sqlitebus.Bus) ([]string, error) { return b.Verify(ctx) }),
		Serve: func(ctx context.Context, d *db.DB) string {
			wrong, err := withBus(func(ctx context.Context, b *sqlitebus.Bus) ([]string, error) { return servedWrong(ctx, b, want), nil })(ctx, d)
			if err != nil {
				return ""
			}
			return strings.Join(wrong, "; ")
		},
	}.Flip(t, flips, 1)
}

func withBus(fn func(context.Context, *sqlitebus.Bus) ([]string, error)) func(context.Context, *db.DB) ([]string, error) {
	return func(ctx context.Context, d *db.DB) ([]string, error) {
		b, err := sqlitebus.New(d, sqlitebus.Options{TrimEvery: -1})
		if err != nil {
			return nil, err
		}
		defer b.Close()
		return fn(ctx, b)
	}
}

// servedWrong reads the log and the dead letters, skipping damaged rows, and returns the
// events that differ from the published ones.
func servedWrong(ctx context.Context, b *sqlitebus.Bus, want []event.Event) (wrong []string) {
	published := make(map[string]event.Event, len(want))
	for _, e := range want {
		published[e.ID] = e
	}
	for seq := range len(want) {
		after := bus.Position("")
		if seq > 0 {
			after = bus.Position(fmt.Sprint(seq))
		}
		got, err := b.Fetch(ctx, bustest.Topic, after, 1)
		if err != nil {
			continue
		}
		for _, d := range got {
			if diff := cmp.Diff(want[seq], d.Event); diff != "" || string(d.Position) != fmt.Sprint(seq+1) {
				wrong = append(wrong, fmt.Sprintf("event %d as %s at %s", seq, d.ID, d.Position))
			}
		}
	}
	letters, err := b.DeadLetters(ctx, "", 100)
	if err != nil {
		return wrong
	}
	for _, l := range letters {
		if l.Event.Type == "damaged" { // the other fields must be empty
			if diff := cmp.Diff(bus.DeadLetter{ID: l.ID, Event: event.Event{Type: "damaged"}, Reason: l.Reason}, l); diff != "" {
				wrong = append(wrong, "damaged dead letter "+l.ID)
			}
			continue
		}
		if diff := cmp.Diff(published[l.Event.ID], l.Event); diff != "" || l.Reason != "to the dead letters" || l.Attempts != 1 || l.Group != "g" {
			wrong = append(wrong, "dead letter "+l.ID)
		}
	}
	return wrong
}

// A damaged row does not stop a group: it becomes a dead letter that names the row, and
// the log keeps the row.
func TestDamagedRowIsSetAside(t *testing.T) {
	database, b := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(context.Background())
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, bustest.Events(bustest.Topic, "e", 3)...); err != nil {
		t.Fatal(err)
	}
	err := database.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE bus_log SET data = ? WHERE id = 'e1'", []byte(`{"id":"forged"}`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	handled, done := make(chan string, 3), make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, s, func(_ context.Context, d bus.Delivery) error { handled <- d.ID; return nil })
	}()
	if got := []string{<-handled, <-handled}; cmp.Diff([]string{"e0", "e2"}, got) != "" {
		t.Errorf("handled %v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	letters, err := b.DeadLetters(context.Background(), "", 5)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "test.topic/2") {
		t.Errorf("dead letters %+v, %v; want one that names the row", letters, err)
	}
	if bad, err := b.Verify(context.Background()); err != nil || len(bad) != 1 {
		t.Errorf("Verify: %v, %v; want the one row", bad, err)
	}
}

// A damaged dead letter is listed as damaged and can be dropped; the others do not
// change.
func TestDamagedDeadLetterHidesNoOther(t *testing.T) {
	database, b := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(t.Context())
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, bustest.Events(bustest.Topic, "e", 3)...); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, s, func(context.Context, bus.Delivery) error { return bus.Permanent(errors.New("no")) })
	}()
	list := func() (types map[event.Type][]string) {
		letters, err := b.DeadLetters(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		types = map[event.Type][]string{}
		for _, l := range letters {
			types[l.Event.Type] = append(types[l.Event.Type], l.ID)
		}
		return types
	}
	kind := bustest.Events(bustest.Topic, "e", 1)[0].Type
	for deadline := time.Now().Add(time.Minute); len(list()[kind]) < 3; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("dead letters %v, want three", list())
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	err := database.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE bus_dead_letters SET attempts = 7 WHERE id = (SELECT max(id) FROM bus_dead_letters)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	got := list()
	if len(got["damaged"]) != 1 || len(got[kind]) != 2 {
		t.Fatalf("listed %v; want one that is damaged and two others", got)
	}
	if err := b.Drop(t.Context(), got["damaged"][0]); err != nil {
		t.Error(err)
	}
	if got := list(); len(got["damaged"]) != 0 || len(got[kind]) != 2 {
		t.Errorf("listed %v after the damaged one was dropped", got)
	}
}

// A damaged replay becomes a dead letter that says so. It is not handled and does not
// block its lane.
func TestADamagedReplayIsSetAside(t *testing.T) {
	for name, damage := range map[string]string{
		"another event": dbtest.ReplaceBytes("bus_pending", "event", "e0", "f0", ""),
		"no event":      dbtest.ReplaceBytes("bus_pending", "event", "{", "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			database, b := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
			s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
			handle := func(n int, answer error) (handled []string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := b.Subscribe(ctx, s, func(ctx context.Context, d bus.Delivery) error {
					if handled = append(handled, d.ID); len(handled) == n {
						defer cancel()
					}
					if answer != nil {
						return answer
					}
					return database.Update(context.WithoutCancel(ctx), d.Ack)
				})
				if err != nil {
					t.Fatal(err)
				}
				return handled
			}
			letters := func() []bus.DeadLetter {
				out, err := b.DeadLetters(t.Context(), "", 10)
				if err != nil || len(out) != 1 {
					t.Fatalf("dead letters: %v, %v", out, err)
				}
				return out
			}
			if err := b.Declare(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if err := b.Publish(t.Context(), bustest.Events(bustest.Topic, "e", 1)...); err != nil {
				t.Fatal(err)
			}
			handle(1, bus.Permanent(errors.New("no")))
			if err := b.Replay(t.Context(), letters()[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := database.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(damage); return err }); err != nil {
				t.Fatal(err)
			}
			if err := b.Publish(t.Context(), bustest.Event(bustest.Topic, "later", "l")); err != nil {
				t.Fatal(err)
			}
			if got := handle(1, nil); !slices.Equal(got, []string{"later"}) {
				t.Errorf("handled %v, want the event behind it alone", got)
			}
			if l := letters()[0]; l.Event.Type != "damaged" || !strings.Contains(l.Reason, "bus_pending") {
				t.Errorf("the dead letter is of the type %s: %s", l.Event.Type, l.Reason)
			}
		})
	}
}
