package redisbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// connect makes Redis usable: it connects, checks the server, claims the prefix and
// restores lost events.
func (b *Bus) connect(ctx context.Context) error {
	if err := b.dial(); err != nil {
		return err
	}
	if _, err := b.probe(ctx); err != nil {
		return err
	}
	if b.epoch != 0 {
		c, err := b.link.look(ctx)
		if err != nil {
			return b.unreachable(err)
		}
		if c.epoch > b.epoch {
			return errReplaced(b.opt.Prefix)
		}
		if b.whole && c.whole(b.epoch, b.link.acked.Load()) {
			return nil
		}
	}
	return b.reclaim(ctx)
}

func errReplaced(prefix string) error {
	return refusal("Another process with the same data took over the Redis prefix %q. Stop one of them and start again.", prefix)
}

// reclaim claims the prefix under a new epoch and restores the events that Redis lost.
func (b *Bus) reclaim(ctx context.Context) error {
	b.whole = false
	b.idIndex.clear()
	first := b.epoch == 0
	have, err := b.takeEpoch(ctx, 0)
	if rest, ok := refused(err, refusedEpoch); ok && first {
		// The database is an older copy (a restored backup).
		newer, parseErr := strconv.ParseInt(rest, 10, 64)
		if parseErr != nil {
			return fmt.Errorf("read the epoch of Redis: %w", parseErr)
		}
		b.log.Warn("redis has seen a newer state of this database; its events are taken over", "epoch", newer)
		have, err = b.takeEpoch(ctx, newer)
	}
	if owner, ok := refused(err, refusedStore); ok {
		return refusal("The Redis prefix %q belongs to another store (%s). Choose another with bus.prefix, or the data directory of that store.", b.opt.Prefix, brief(owner))
	}
	if _, ok := refused(err, refusedEpoch); ok {
		return errReplaced(b.opt.Prefix)
	}
	if err != nil {
		return err
	}
	lost, err := b.newGapFinder(ctx, have)
	if err != nil {
		return err
	}
	newest, err := b.restore(ctx, have, lost)
	if err != nil {
		return err
	}
	if err := b.recordGaps(ctx, lost); err != nil {
		return err
	}
	b.batch = max(b.batch, newest, have, firstBatch(b.epoch))
	if err := b.link.run(ctx, restoredScript, []string{b.link.claim}, []string{
		strconv.FormatInt(b.epoch, 10), strconv.FormatInt(b.steps, 10), strconv.FormatInt(b.batch, 10),
	}).Error(); err != nil {
		return b.unreachable(err)
	}
	b.link.acked.Store(b.batch)
	clear(b.held)
	b.whole = true
	return nil
}

// batchBits limits the number of batches per epoch, so that the numbers of two epochs
// do not overlap. It is enough for days at full speed. Lua represents integers exactly
// up to 2^53.
const batchBits = 53 - (63 - countBits)

// firstBatch returns a number above every batch of earlier epochs, even of batches
// that neither Redis nor a row has now. Otherwise, a Redis that comes back with such a
// batch would seem to have batches that it never received.
func firstBatch(epoch int64) int64 { return epoch << batchBits }

// takeEpoch increments the epoch to a value above past and claims the prefix with it.
// It returns the newest batch that Redis has, or -1 if Redis has no claim.
func (b *Bus) takeEpoch(ctx context.Context, past int64) (have int64, err error) {
	err = b.db.Update(ctx, func(tx *db.Tx) error {
		return tx.QueryRow("UPDATE redis_state SET epoch = max(epoch, ?) + 1 RETURNING epoch", past).Scan(&b.epoch)
	})
	if err != nil {
		return 0, fmt.Errorf("count the epoch: %w", err)
	}
	if b.epoch > epochMax {
		return 0, fault.New(fault.LimitReached, "the epochs of this store are used up")
	}
	b.steps = 0
	have, err = b.link.run(ctx, claimScript, []string{b.link.claim}, []string{b.db.StoreID(), strconv.FormatInt(b.epoch, 10)}).AsInt64()
	if err != nil && !isScriptRefusal(err) {
		return 0, b.unreachable(err)
	}
	return have, err
}

func isScriptRefusal(err error) bool {
	for _, code := range []string{refusedStore, refusedEpoch, refusedLost} {
		if _, ok := refused(err, code); ok {
			return true
		}
	}
	return false
}

// restore sends the events of all batches after have again, at the same positions. It
// returns the newest of those batches. It sends events in the order of their positions,
// because Redis accepts only increasing positions in a stream. That can differ from the
// order of the batches: if the reply to an event was lost, its position is from the
// first batch, but its row was sent again in a later one.
func (b *Bus) restore(ctx context.Context, have int64, lost *gapFinder) (newest int64, err error) {
	direct := b.recent.since(max(have, 0))
	slices.SortStableFunc(direct, func(x, y *item) int { return cmp.Compare(x.pos, y.pos) })
	count, leftOut := 0, int64(0)
	send := func(items []*item) error {
		count += len(items)
		for len(items) > 0 {
			var part []*item
			part, items = b.cutBatch(items)
			for _, it := range part {
				newest = max(newest, it.batch)
				lost.advance(it.topic, it.pos)
			}
			n, err := b.resend(ctx, part)
			if err != nil {
				return err
			}
			leftOut += n
		}
		return nil
	}
	pos, row := int64(0), int64(0)
	for more := true; more; {
		var items []*item
		items, more, err = b.rows(ctx, b.sizer.limit(chunkBytes), "pos > 0 AND +batch > ? AND pos >= ? AND (pos > ? OR row > ?) ORDER BY pos, row",
			max(have, 0), pos, pos, row)
		if err != nil {
			return 0, err
		}
		merged := make([]*item, 0, len(items))
		for _, it := range items {
			for len(direct) > 0 && direct[0].pos < it.pos {
				merged, direct = append(merged, direct[0]), direct[1:]
			}
			merged = append(merged, it)
			pos, row = it.pos, it.row
		}
		if err := send(merged); err != nil {
			return 0, err
		}
	}
	if err := send(direct); err != nil {
		return 0, err
	}
	if count > 0 {
		b.log.Warn("redis had lost events; they were sent again", "events", count, "after_batch", have)
	}
	if leftOut > 0 {
		b.log.Error("redis has newer events where lost ones belong, and cannot take them back", "events", leftOut)
	}
	return newest, nil
}

// errAway means that Redis is unavailable, or that the event needs a row.
var errAway = errors.New("redis is away")
