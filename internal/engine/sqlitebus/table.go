package sqlitebus

import (
	"context"
	"errors"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
)

// table implements [delivery.Log].
type table struct{ db *db.DB }

var _ delivery.Log = table{}

func (t topicInfo) known() delivery.Topic {
	return delivery.Topic{Exists: t.id != 0, Last: t.last, Trimmed: t.trimmed, Expired: t.expired}
}

// Topic implements [delivery.Log].
func (l table) Topic(ctx context.Context, topic event.Topic) (known delivery.Topic, err error) {
	err = l.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		known = info.known()
		return err
	})
	return known, err
}

// Read implements [delivery.Log].
func (l table) Read(ctx context.Context, topic event.Topic, after int64, lane string, limit int) (known delivery.Topic, records []*record, err error) {
	err = l.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		known = info.known()
		if after = max(after, info.trimmed); err != nil || info.last <= after {
			return err
		}
		records, err = readLog(q, topic, info.id, after, lane, limit)
		return err
	})
	return known, records, err
}

// One implements [delivery.Log].
func (l table) One(ctx context.Context, topic event.Topic, seq int64) (r *record, err error) {
	err = l.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		if err != nil {
			return err
		}
		r, err = readOne(q, topic, info.id, seq)
		return err
	})
	return r, err
}

// Appended implements [delivery.Log].
func (l table) Appended(ctx context.Context, topic event.Topic, seq int64) (at int64, err error) {
	err = l.db.Read(ctx, func(q db.Queryer) error {
		info, err := findTopic(q, topic)
		if err != nil {
			return err
		}
		err = q.QueryRow("SELECT at FROM bus_log WHERE pos >= ? AND pos <= ? ORDER BY pos LIMIT 1",
			rowNumber(info.id, seq), rowNumber(info.id, seqMax)).Scan(&at)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		return err
	})
	return at, err
}

// Distance implements [delivery.Log].
func (table) Distance(from, to int64) int64 { return max(0, to-from) }

// Position implements [delivery.Log].
func (table) Position(seq int64) bus.Position { return position(seq) }

// Seq implements [delivery.Log].
func (table) Seq(p bus.Position) (int64, error) { return parsePosition(p) }
