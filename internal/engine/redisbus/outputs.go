package redisbus

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// noteOutputs remembers in the database that there are these outputs, so that
// a reader is told when Redis has lost one. The log of the database does not
// have them: they stand there as removed.
func noteOutputs(tx *db.Tx, outputs []*output, at int64) error {
	for _, o := range outputs {
		_, err := tx.Exec("INSERT INTO bus_topics (name, output, last_append, expired) VALUES (?, 1, ?, 1) ON CONFLICT (name) DO NOTHING", string(o.topic), at)
		if err != nil {
			return fmt.Errorf("note the output %s: %w", o.topic, err)
		}
	}
	return nil
}

// outputNoted reports whether there was such an output.
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
