package bus_test

import (
	"context"
	"fmt"
	"os"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
)

// A handler acknowledges its event in the transaction that writes its own state,
// so both happen or neither does.
func Example() {
	dir, err := os.MkdirTemp("", "bus-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	database, err := db.Open(ctx, db.Options{Dir: dir, Migrations: sqlitebus.Migrations})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer database.Close()
	b, err := sqlitebus.New(database, sqlitebus.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	sub := bus.Subscription{Topic: event.TopicEnv, Group: "example", Mode: bus.Work, Consumer: "one"}
	if err := b.Declare(ctx, sub); err != nil { // before anything is published
		fmt.Println(err)
		return
	}
	e := event.Event{ID: "build-42", Topic: event.TopicEnv, Type: "custom.build", Lane: "builds", TS: 1, Data: []byte(`{"ok":true}`)}
	for range 2 { // publishing again after an unknown outcome is safe: the id is the same
		if err := b.Publish(ctx, e); err != nil {
			fmt.Println(err)
			return
		}
	}
	err = b.Subscribe(ctx, sub, func(ctx context.Context, d bus.Delivery) error {
		defer cancel() // Subscribe returns once this handler has
		fmt.Println(d.ID, string(d.Data), "attempt", d.Attempt)
		return database.Update(context.WithoutCancel(ctx), func(tx *db.Tx) error { return d.Ack(tx) })
	})
	fmt.Println(err)
	// Output:
	// build-42 {"ok":true} attempt 1
	// <nil>
}
