package sqlitebus

import (
	"context"
	"slices"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/event"
)

// Options tune an engine. The zero value works; tests shorten the times.
type Options = delivery.Options

// Migrations create the tables of the bus; [db.Open] applies them.
var Migrations = slices.Concat(delivery.Migrations, longtext.Migrations)

// Bus is the engine that stores events in the database. It implements [bus.Bus].
type Bus struct {
	*delivery.Engine
	db  *db.DB
	opt Options

	topics topicCache // used inside write transactions only
}

var _ bus.Bus = (*Bus)(nil)

// New creates the engine on an open database that has [Migrations], and installs
// it as the database's publisher.
func New(database *db.DB, opt Options) (*Bus, error) {
	opt = opt.WithDefaults()
	deliver, err := delivery.New(database, table{database}, opt)
	if err != nil {
		return nil, err
	}
	b := &Bus{Engine: deliver, db: database, opt: opt, topics: make(topicCache)}
	database.SetPublisher(b.append)
	b.TrimPeriodically(b.Trim)
	return b, nil
}

// Log returns the events.
func (b *Bus) Log() delivery.Log { return table{b.db} }

// Topics lists the topics that exist: all but outputs that have had no event since a time
// in Unix milliseconds. The time of an output lags by up to ten minutes.
func (b *Bus) Topics(ctx context.Context, since int64) (names []event.Topic, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(`SELECT name FROM bus_topics WHERE output = 0
			UNION ALL SELECT name FROM bus_topics WHERE output = 1 AND expired IN (0, 1) AND last_append >= ?`, since)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name event.Topic
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, err
}

// Publish makes the events durable, all or none, in order.
func (b *Bus) Publish(ctx context.Context, events ...event.Event) error {
	if len(events) == 0 {
		return nil
	}
	return b.db.Update(ctx, func(tx *db.Tx) error { return tx.Publish(events...) })
}

// Healthy returns an error while events cannot be written, read or handled.
func (b *Bus) Healthy(ctx context.Context) error {
	if err := b.Trouble(); err != nil {
		return err
	}
	return b.db.Read(ctx, func(q db.Queryer) error {
		var one int
		return q.QueryRow("SELECT 1").Scan(&one)
	})
}

// Close stops all goroutines of the bus and waits for them. The database stays open.
func (b *Bus) Close() error {
	b.Stop()
	return nil
}
