package redisbus

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// noteOutputs records in the database that these outputs exist, so that their readers
// get an error if Redis loses one. They are recorded as expired, because the database's
// own log does not hold their events.
func noteOutputs(tx *db.Tx, outputs []*output, at int64) error {
	for _, o := range outputs {
		_, err := tx.Exec("INSERT INTO bus_topics (name, output, last_append, expired) VALUES (?, 1, ?, 1) ON CONFLICT (name) DO NOTHING", string(o.topic), at)
		if err != nil {
			return fmt.Errorf("note the output %s: %w", o.topic, err)
		}
	}
	return nil
}

// outputNoted reports whether the database has recorded an output.
func outputNoted(ctx context.Context, database *db.DB, topic event.Topic) (was bool, err error) {
	err = database.Read(ctx, func(q db.Queryer) error {
		var one int
		err := q.QueryRow("SELECT 1 FROM bus_topics WHERE name = ?", string(topic)).Scan(&one)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		was = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for the output %s: %w", topic, err)
	}
	return was, nil
}
