package redisbus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

const (
	// appendRefresh is the interval at which the expiry of a growing output is
	// extended. An output can outlive its age by this much.
	appendRefresh = 10 * time.Minute
	// trimChunk is the maximum number of entries per run of the script, because Redis
	// executes nothing else during a run.
	trimChunk = 200
)

// Trim removes events that are older than the configured ages and that every live group
// has committed, and outgoing rows that are no longer needed. Output topics expire in
// Redis by themselves. While Redis is unavailable, Trim still records which groups have
// a consumer, so that they stay live.
func (b *Bus) Trim(ctx context.Context) (removed int64, err error) {
	now := b.now()
	b.recent.forget(now)
	b.idIndex.forgetIdle(now)
	if err := b.NoteAttached(ctx, now); err != nil {
		return 0, err
	}
	if err := b.sweep(ctx); err != nil {
		return 0, err
	}
	if err := b.ForgetOutputs(ctx, now, func() {}); err != nil {
		return 0, fmt.Errorf("forget outputs: %w", err)
	}
	if b.link.away() != nil {
		return 0, nil // the next run removes the events
	}
	client := b.link.connected()
	topics, err := client.Do(ctx, client.B().Smembers().Key(b.link.prefix+":topics").Build()).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("find what to trim: %w", b.link.unreadable(err))
	}
	for _, name := range topics {
		n, err := b.trimTopic(ctx, event.Topic(name), now)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("trim %s: %w", name, err)
		}
	}
	return removed, nil
}

func (b *Bus) trimTopic(ctx context.Context, topic event.Topic, now time.Time) (removed int64, err error) {
	info, err := b.stream.Topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	var floor int64
	err = b.db.Read(ctx, func(q db.Queryer) error {
		floor, err = b.Floor(q, topic, info.Last, now)
		return err
	})
	if err != nil || floor <= info.Trimmed {
		return 0, err
	}
	k := b.link.keys(topic)
	cutoff := strconv.FormatInt(now.Add(-b.opt.AgeOf(topic)).UnixMilli(), 10)
	upTo := int64(0)
	for {
		reply, err := b.link.run(ctx, trimScript, []string{b.link.claim, k.stream, k.ids, k.meta},
			[]string{strconv.FormatInt(b.link.epoch.Load(), 10), entryID(floor), cutoff, strconv.Itoa(trimChunk)}).ToArray()
		if err != nil || len(reply) != 2 {
			return removed, b.link.unreadable(err)
		}
		n, err := reply[0].AsInt64()
		if err != nil {
			return removed, b.link.unreadable(err)
		}
		removed += n
		if last, err := reply[1].ToString(); err == nil && n > 0 {
			upTo, _ = parseEntryID(last)
		}
		if n < trimChunk {
			break
		}
	}
	if upTo == 0 {
		return removed, nil
	}
	return removed, b.db.UpdateRelaxed(ctx, func(tx *db.Tx) error { return b.DropStale(tx, topic, upTo) })
}
