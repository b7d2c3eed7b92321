package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// EnsureTopic returns the id of a topic in bus_topics and creates its row if necessary.
// at is the current time in Unix milliseconds.
func EnsureTopic(tx *db.Tx, topic event.Topic, at int64) (id int64, err error) {
	err = tx.QueryRow("SELECT id FROM bus_topics WHERE name = ?", string(topic)).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return CreateTopic(tx, topic, at)
	}
	return id, err
}

// CreateTopic is like [EnsureTopic], for a topic that has no row.
func CreateTopic(tx *db.Tx, topic event.Topic, at int64) (id int64, err error) {
	_, output := topic.OutputRequest()
	err = tx.QueryRow("INSERT INTO bus_topics (name, output, last_append) VALUES (?, ?, ?) RETURNING id", string(topic), output, at).Scan(&id)
	return id, err
}

// TombstoneAge is how long a removed output topic is remembered, so that its readers
// get an error instead of waiting.
const TombstoneAge = 30 * 24 * time.Hour

// tombstonesChunk is the maximum number of output topics that one transaction forgets.
const tombstonesChunk = 1000

// ForgetOutputs deletes the rows of output topics that were removed more than
// [TombstoneAge] ago. It calls forgotten in the same transaction, so that the caller can
// invalidate its caches.
func (b *Engine) ForgetOutputs(ctx context.Context, now time.Time, forgotten func()) error {
	cutoff := now.Add(-b.opt.OutputAge - TombstoneAge).UnixMilli()
	var due bool
	const which = `output = 1 AND expired = 1 AND last_append < ? AND NOT EXISTS (SELECT 1 FROM bus_groups g WHERE g.topic = bus_topics.id)`
	err := b.db.Read(ctx, func(q db.Queryer) error {
		return q.QueryRow("SELECT EXISTS (SELECT 1 FROM bus_topics WHERE "+which+")", cutoff).Scan(&due)
	})
	if err != nil || !due {
		return err
	}
	return b.db.Update(ctx, func(tx *db.Tx) error {
		forgotten()
		_, err := tx.Exec("DELETE FROM bus_topics WHERE id IN (SELECT id FROM bus_topics WHERE "+which+" LIMIT ?)", cutoff, tombstonesChunk)
		return err
	})
}

// seenParts sets the precision of the time at which a group last had a consumer: one
// part of [Options.SilentAfter], which is one hour for a week.
const seenParts = 168

// alarm logs each silent group once (see [bus.GroupStatus.Silent]): a group without a
// consumer that has work, or has had none for a day.
func (b *Engine) alarm(ctx context.Context, told map[groupName]bool) error {
	groups, err := b.Groups(ctx)
	if err != nil {
		return err
	}
	silent := make(map[groupName]bool)
	for _, g := range groups {
		name := groupName{g.Topic, g.Group}
		// After a start, a consumer may need up to an hour to subscribe.
		if !g.Silent() || g.SilentMS <= b.opt.SilentAfter.Milliseconds()/seenParts {
			continue
		}
		if silent[name] = true; !told[name] {
			b.log.Error("a group has no consumer; drop it if you no longer need it", "topic", g.Topic, "group", g.Group,
				"backlog", g.Backlog, "pending", g.Pending, "silent_ms", g.SilentMS)
		}
	}
	clear(told)
	maps.Copy(told, silent)
	return nil
}

// NoteAttached records that the groups with a consumer are live.
func (b *Engine) NoteAttached(ctx context.Context, now time.Time) error {
	b.mu.RLock()
	names := make([]groupName, 0, len(b.groups))
	for name := range b.groups {
		names = append(names, name)
	}
	b.mu.RUnlock()
	before := now.Add(-b.opt.SilentAfter / seenParts).UnixMilli()
	stale, err := b.notedBefore(ctx, names, before)
	if err != nil || !stale {
		return err // usually recorded within the last hour, so nothing to write
	}
	return b.db.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		for _, name := range names {
			_, err := tx.Exec(`UPDATE bus_groups SET seen_at = ? WHERE name = ? AND seen_at < ?
				AND topic = (SELECT id FROM bus_topics WHERE name = ?)`,
				now.UnixMilli(), name.name, before, string(name.topic))
			if err != nil {
				return fmt.Errorf("note group: %w", err)
			}
		}
		return nil
	})
}

// notedBefore reports whether any of the groups was last recorded as live before the
// given time.
func (b *Engine) notedBefore(ctx context.Context, names []groupName, before int64) (stale bool, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		for _, name := range names {
			err := q.QueryRow(`SELECT EXISTS (SELECT 1 FROM bus_groups WHERE name = ? AND seen_at < ?
				AND topic = (SELECT id FROM bus_topics WHERE name = ?))`, name.name, before, string(name.topic)).Scan(&stale)
			if err != nil || stale {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("find when groups were noted: %w", err)
	}
	return stale, nil
}

// Floor returns the position up to which every live group of a topic has committed, or
// last if there is no group. A group without a consumer for longer than
// [Options.SilentAfter] does not count; Floor logs that.
func (b *Engine) Floor(q db.Queryer, topic event.Topic, last int64, now time.Time) (int64, error) {
	rows, err := q.Query(`SELECT g.name, g.cursor, g.seen_at,
		coalesce((SELECT min(seq) FROM bus_pending p WHERE p.grp = g.id AND p.event IS NULL), g.cursor + 1)
		FROM bus_groups g JOIN bus_topics t ON t.id = g.topic WHERE t.name = ?`, string(topic))
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
			b.log.Warn("a group was silent for too long and no longer keeps events", "topic", topic, "group", name)
			continue
		}
		floor = min(floor, done)
	}
	return floor, rows.Err()
}

func (b *Engine) silent(seen int64, now time.Time) bool {
	return now.Sub(time.UnixMilli(seen)) > b.opt.SilentAfter
}

// DropStale deletes the pending rows of silent groups for removed events.
func (b *Engine) DropStale(tx *db.Tx, topic event.Topic, upTo int64) error {
	_, err := tx.Exec(`DELETE FROM bus_pending WHERE seq <= ? AND event IS NULL AND grp IN
		(SELECT g.id FROM bus_groups g JOIN bus_topics t ON t.id = g.topic WHERE t.name = ?)`, upTo, string(topic))
	return err
}
