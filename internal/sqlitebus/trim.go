package sqlitebus

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/db"
	"lilac/internal/event"
)

const (
	// trimChunk bounds one transaction of a trim, so that it does not hold up
	// what waits for the writer.
	trimChunk = 1000
	// tombstoneAge is how long an expired output topic is remembered, so that
	// a reader of it is told instead of waiting.
	tombstoneAge = 30 * 24 * time.Hour
)

func (b *Bus) trimRegularly() {
	t := time.NewTicker(b.opt.TrimEvery)
	defer t.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-t.C:
		}
		if n, err := b.Trim(b.ctx); err != nil && b.ctx.Err() == nil {
			b.log.Error("trim failed", "error", err)
		} else if n > 0 {
			b.log.Debug("trimmed", "events", n)
		}
	}
}

type trimTopic struct {
	name   event.Topic
	id     int64
	output bool
}

// Trim removes what is older than the configured ages and committed by every
// live group.
func (b *Bus) Trim(ctx context.Context) (removed int64, err error) {
	now := b.opt.Now()
	if err := b.noteAttached(ctx, now); err != nil {
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
	return removed, b.forgetTombstones(ctx, now)
}

// noteAttached marks the groups that are served as alive.
func (b *Bus) noteAttached(ctx context.Context, now time.Time) error {
	b.mu.RLock()
	names := make([]groupName, 0, len(b.groups))
	for name := range b.groups {
		names = append(names, name)
	}
	b.mu.RUnlock()
	if len(names) == 0 {
		return nil
	}
	return b.db.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		for _, name := range names {
			_, err := tx.Exec(`UPDATE bus_groups SET seen_at = ? WHERE name = ? AND seen_at < ?
				AND topic = (SELECT id FROM bus_topics WHERE name = ?)`,
				now.UnixMilli(), name.name, now.Add(-b.opt.SilentAfter/10).UnixMilli(), string(name.topic))
			if err != nil {
				return fmt.Errorf("note group: %w", err)
			}
		}
		return nil
	})
}

func (b *Bus) toTrim(ctx context.Context, now time.Time) (topics []trimTopic, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(`SELECT name, id, output FROM bus_topics WHERE output = 0
			UNION ALL SELECT name, id, output FROM bus_topics WHERE output = 1 AND expired = 0 AND last_append < ?`,
			b.outputCutoff(now))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t trimTopic
			if err := rows.Scan(&t.name, &t.id, &t.output); err != nil {
				return err
			}
			topics = append(topics, t)
		}
		return rows.Err()
	})
	return topics, err
}

// outputCutoff allows for the noted time of the last append being behind.
func (b *Bus) outputCutoff(now time.Time) int64 {
	return now.Add(-b.opt.OutputAge - appendRefresh).UnixMilli()
}

// trimSome removes one chunk from the beginning of a topic. What it decides on
// is read in the same transaction.
func (b *Bus) trimSome(tx *db.Tx, t trimTopic, now time.Time) (int64, error) {
	info, err := findTopic(tx, t.name)
	if err != nil || info.id == 0 {
		return 0, err
	}
	cutoff := now.Add(-b.ageOf(t.name)).UnixMilli()
	if t.output {
		if info.lastAppend >= b.outputCutoff(now) {
			return 0, nil // something was appended since
		}
		cutoff = now.UnixMilli() + 1
	}
	floor, err := b.committed(tx, t, info.last, now)
	if err != nil {
		return 0, err
	}
	var last int64
	err = tx.QueryRow(`SELECT ifnull(max(pos), 0) FROM (SELECT pos, at FROM bus_log
		WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?) WHERE at < ?
		AND pos < ifnull((SELECT min(pos) FROM (SELECT pos, at FROM bus_log WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?) WHERE at >= ?), pos + 1)`,
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
	return upTo - info.trimmed, b.dropStale(tx, t, upTo)
}

func (b *Bus) ageOf(topic event.Topic) time.Duration {
	if age, ok := b.opt.Ages[topic]; ok {
		return age
	}
	return b.opt.Age
}

// committed is the place up to which every live group has committed. A group
// that was silent for too long does not count; that is logged.
func (b *Bus) committed(tx *db.Tx, t trimTopic, last int64, now time.Time) (int64, error) {
	rows, err := tx.Query(`SELECT g.name, g.cursor, g.seen_at,
		ifnull((SELECT min(seq) FROM bus_pending p WHERE p.grp = g.id AND p.event IS NULL), g.cursor + 1)
		FROM bus_groups g WHERE g.topic = ?`, t.id)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	floor := last
	for rows.Next() {
		var name string
		var cursor, seen, oldest int64
		if err := rows.Scan(&name, &cursor, &seen, &oldest); err != nil {
			return 0, err
		}
		done := min(cursor, oldest-1)
		if done < floor && b.silent(seen, now) {
			b.log.Warn("a group was silent for too long and no longer keeps events", "topic", t.name, "group", name)
			continue
		}
		floor = min(floor, done)
	}
	return floor, rows.Err()
}

func (b *Bus) silent(seen int64, now time.Time) bool {
	return now.Sub(time.UnixMilli(seen)) > b.opt.SilentAfter
}

// dropStale removes what silent groups had pending of removed events.
func (b *Bus) dropStale(tx *db.Tx, t trimTopic, upTo int64) error {
	_, err := tx.Exec(`DELETE FROM bus_pending WHERE seq <= ? AND event IS NULL AND grp IN
		(SELECT id FROM bus_groups WHERE topic = ?)`, upTo, t.id)
	return err
}

func (b *Bus) forgetTombstones(ctx context.Context, now time.Time) error {
	cutoff := now.Add(-b.opt.OutputAge - tombstoneAge).UnixMilli()
	var due bool
	const which = `output = 1 AND expired = 1 AND last_append < ? AND NOT EXISTS (SELECT 1 FROM bus_groups g WHERE g.topic = bus_topics.id)`
	err := b.db.Read(ctx, func(q db.Queryer) error {
		return q.QueryRow("SELECT EXISTS (SELECT 1 FROM bus_topics WHERE "+which+")", cutoff).Scan(&due)
	})
	if err != nil || !due {
		return err
	}
	return b.db.Update(ctx, func(tx *db.Tx) error {
		clear(b.topics)
		_, err := tx.Exec("DELETE FROM bus_topics WHERE id IN (SELECT id FROM bus_topics WHERE "+which+" LIMIT ?)", cutoff, trimChunk)
		return err
	})
}
