package sqlitebus

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

const (
	// trimChunk is the maximum number of rows that one transaction removes, so that
	// other writes are not delayed.
	trimChunk = 1000
)

type trimTopic struct {
	name   event.Topic
	id     int64
	output bool
}

// Trim removes events that are older than the configured ages and that every live group
// has committed.
func (b *Bus) Trim(ctx context.Context) (removed int64, err error) {
	now := b.opt.Now()
	if err := b.NoteAttached(ctx, now); err != nil {
		return 0, err
	}
	topics, err := b.toTrim(ctx, now)
	if err != nil {
		return 0, fmt.Errorf("find what to trim: %w", err)
	}
	for _, t := range topics {
		for {
			var n int64
			err := b.db.Update(ctx, func(tx *db.Tx) (err error) {
				n, err = b.trimSome(tx, t, now)
				return err
			})
			if err != nil {
				return removed, fmt.Errorf("trim %s: %w", t.name, err)
			}
			removed += n
			if n < trimChunk {
				break
			}
		}
	}
	return removed, b.ForgetOutputs(ctx, now, func() { clear(b.topics) })
}

// toTrim returns the topics with removable events. If there is none, nothing is
// written, so an idle program does not wake the disk.
func (b *Bus) toTrim(ctx context.Context, now time.Time) (topics []trimTopic, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		all, err := b.candidates(q, now)
		if err != nil {
			return err
		}
		for _, t := range all {
			cutoff := now.Add(-b.opt.AgeOf(t.name)).UnixMilli()
			due := t.output
			if !due {
				err := q.QueryRow(`SELECT CASE WHEN (SELECT at FROM bus_log WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT 1) < ? THEN 1 ELSE 0 END`,
					rowNumber(t.id, 0), rowNumber(t.id, seqMax), cutoff).Scan(&due)
				if err != nil {
					return err
				}
			}
			if due {
				topics = append(topics, t)
			}
		}
		return nil
	})
	return topics, err
}

func (b *Bus) candidates(q db.Queryer, now time.Time) (topics []trimTopic, err error) {
	rows, err := q.Query(`SELECT name, id, output FROM bus_topics WHERE output = 0
		UNION ALL SELECT name, id, output FROM bus_topics WHERE output = 1 AND expired = 0 AND last_append < ?`,
		b.outputCutoff(now))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var t trimTopic
		if err := rows.Scan(&t.name, &t.id, &t.output); err != nil {
			return nil, err
		}
		topics = append(topics, t)
	}
	return topics, rows.Err()
}

// outputCutoff returns the time before which an output's last append makes it
// removable. It allows for the lag of the recorded time (appendRefresh).
func (b *Bus) outputCutoff(now time.Time) int64 {
	return now.Add(-b.opt.OutputAge - appendRefresh).UnixMilli()
}

// trimSome removes one chunk from the beginning of a topic. It reads the state that it
// depends on in the same transaction.
func (b *Bus) trimSome(tx *db.Tx, t trimTopic, now time.Time) (int64, error) {
	info, err := findTopic(tx, t.name)
	if err != nil || info.id == 0 {
		return 0, err
	}
	cutoff := now.Add(-b.opt.AgeOf(t.name)).UnixMilli()
	if t.output {
		if info.lastAppend >= b.outputCutoff(now) {
			return 0, nil // something was appended since
		}
		cutoff = now.UnixMilli() + 1
	}
	floor, err := b.Floor(tx, t.name, info.last, now)
	if err != nil {
		return 0, err
	}
	var last int64
	err = tx.QueryRow(`SELECT coalesce(max(pos), 0) FROM (SELECT pos, at FROM bus_log
		WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?) AS first WHERE at < ?
		AND pos < coalesce((SELECT min(pos) FROM (SELECT pos, at FROM bus_log WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?) AS young WHERE at >= ?), pos + 1)`,
		rowNumber(t.id, info.trimmed), rowNumber(t.id, floor), trimChunk, cutoff,
		rowNumber(t.id, info.trimmed), rowNumber(t.id, floor), trimChunk, cutoff).Scan(&last)
	if err != nil {
		return 0, err
	}
	upTo := max(last&seqMax, info.trimmed)
	expired := t.output && upTo == info.last
	if upTo == info.trimmed && !expired {
		return 0, nil
	}
	tx.AfterRollback(func() { delete(b.topics, t.name) })
	if _, err := tx.Exec("DELETE FROM bus_log WHERE pos > ? AND pos <= ?", rowNumber(t.id, 0), rowNumber(t.id, upTo)); err != nil {
		return 0, err
	}
	if _, err := tx.Exec("UPDATE bus_topics SET trimmed = ?, expired = ? WHERE id = ?", upTo, expired, t.id); err != nil {
		return 0, err
	}
	delete(b.topics, t.name)
	return upTo - info.trimmed, b.DropStale(tx, t.name, upTo)
}
