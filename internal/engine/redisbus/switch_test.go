package redisbus_test

import (
	"context"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/redistest"
)

// Switching a database to the other engine and back loses no events and handles none
// twice. Switching fails while there are unhandled events.
func TestPassingToAnotherEngineLosesNothing(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t, redistest.Options{})
	database, err := db.Open(ctx, db.Options{Dir: t.TempDir(), Migrations: redisbus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	handled := map[string]int{}
	use := func(name string) (bus.Bus, error) {
		s := delivery.Switching{Name: name, End: sqlitebus.End, Unfinished: map[string]func(db.Queryer) (int64, error){
			sqlitebus.EngineName: sqlitebus.Unfinished, redisbus.EngineName: redisbus.Unfinished,
		}}
		if name == redisbus.EngineName {
			s.End = redisbus.End
		}
		if err := delivery.Switch(ctx, database, s); err != nil {
			return nil, err
		}
		if name == redisbus.EngineName {
			return redisbus.Open(ctx, database, redisbus.Options{URL: server.URL(), Options: delivery.Options{TrimEvery: -1}, ReplyWithin: patience})
		}
		return sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1})
	}
	handle := func(b bus.Bus, want int) {
		consuming, stop := context.WithTimeout(ctx, patience)
		defer stop()
		left := want
		if err := b.Subscribe(consuming, group, func(ctx context.Context, d bus.Delivery) error {
			handled[d.ID]++
			if left--; left == 0 {
				defer stop()
			}
			return database.Update(context.WithoutCancel(ctx), d.Ack)
		}); err != nil {
			t.Fatal(err)
		}
	}
	engines := []string{sqlitebus.EngineName, redisbus.EngineName, sqlitebus.EngineName, redisbus.EngineName}
	for i, name := range engines {
		b, err := use(name)
		if err != nil {
			t.Fatalf("%d: use %s: %v", i, name, err)
		}
		if err := b.Declare(ctx, group); err != nil {
			t.Fatal(err)
		}
		var events []string
		for n := range 3 {
			e := bustest.Event(bustest.Topic, name+time.Duration(10*i+n).String(), "l")
			if err := b.Publish(ctx, e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e.ID)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		other := engines[(i+1)%2]
		if _, err := use(other); fault.KindOf(err) != fault.Conflict {
			t.Fatalf("%d: to %s while %d events wait: %v, want a conflict", i, other, len(events), err)
		}
		if b, err = use(name); err != nil {
			t.Fatal(err)
		}
		handle(b, len(events))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for _, id := range events {
			if handled[id] != 1 {
				t.Errorf("%s was handled %d times", id, handled[id])
			}
		}
	}
	if len(handled) != 3*len(engines) {
		t.Errorf("%d events were handled, want %d: %v", len(handled), 3*len(engines), handled)
	}
}
