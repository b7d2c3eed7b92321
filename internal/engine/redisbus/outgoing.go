package redisbus

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// unsentMax is the maximum number of unsent rows: hours of work, and less than a
	// gigabyte. Beyond it, publishing fails.
	unsentMax = 500_000
	// rowsChunk is the maximum number of rows in one batch.
	rowsChunk = 256
	// chunkBytes is the maximum size of one batch. A batch with one event may be larger.
	chunkBytes = 4 << 20
	// keepSent is the minimum time that a row is kept after it was sent. It is longer
	// than the delay of an append-only file that is synced every second.
	keepSent = time.Minute
	// sweepChunk is the maximum number of rows that one transaction removes.
	sweepChunk = 1000
)

// item is an event to send to Redis.
type item struct {
	topic  event.Topic
	id     string
	hash   hashedID         // of the id, for events of outputs
	entry  string           // the field "e" of its entry
	record *delivery.Record // announced once Redis has the event; nil for items of recent
	output *output          // set when it is sent; nil for other topics
	row    int64            // its row in redis_outgoing, 0 if it has none
	pos    int64            // its position, 0 until it has one
	batch  int64
}

func newItem(e event.Event, head []byte, appended int64) *item {
	it := &item{topic: e.Topic, id: e.ID, entry: sealed(e, head, appended), record: &delivery.Record{Event: e}}
	if _, output := e.Topic.OutputRequest(); output {
		it.hash = hashID(e.ID)
	}
	return it
}

func (i *item) size() int { return len(i.entry) + len(i.id) }

// write is the database's publisher. It runs in the writer goroutine, in the caller's
// transaction.
func (b *Bus) write(tx *db.Tx, events []event.Event) error {
	if b.unsent.Load()+int64(len(events)) > unsentMax {
		return fault.New(fault.Unavailable, "Redis has been away for so long that no more events can be kept for it.")
	}
	for _, e := range events {
		head := encodeHead(e)
		_, err := tx.Exec("INSERT INTO redis_outgoing (topic, id, head, data, sum) VALUES (?, ?, ?, ?, ?)",
			string(e.Topic), e.ID, head, []byte(e.Data), sumEvent(e.Topic, e.ID, head, e.Data))
		if err != nil {
			return fmt.Errorf("write outgoing event %q: %w", e.ID, err)
		}
	}
	tx.AfterCommit(func() {
		b.unsent.Add(int64(len(events)))
		b.wakeForwarder()
	})
	return nil
}

const itemColumns = "row, topic, id, head, data, sum, pos, batch"

// rows reads items, at most rowsChunk rows and about most bytes. It omits damaged rows;
// they are logged and never sent.
func (b *Bus) rows(ctx context.Context, most int, query string, args ...any) (items []*item, more bool, err error) {
	var damaged []int64
	waiting := int64(0) // number of damaged rows that were not sent
	now := b.now().UnixMilli()
	err = b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query("SELECT "+itemColumns+" FROM redis_outgoing WHERE "+query+" LIMIT ?", append(args, rowsChunk)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		n, size := 0, 0
		for rows.Next() {
			var topic event.Topic
			var id string
			var head, data []byte
			var row, sum, pos, batch int64
			if err := rows.Scan(&row, &topic, &id, &head, &data, &sum, &pos, &batch); err != nil {
				return err
			}
			n++
			e, err := decodeEvent(topic, id, head, data)
			if err != nil || sum != sumEvent(topic, id, head, data) {
				damaged = append(damaged, row)
				if pos == 0 {
					waiting++
				}
				continue
			}
			it := newItem(e, head, now)
			it.row, it.pos, it.batch = row, pos, batch
			items = append(items, it)
			if size += it.size(); size > most {
				more = true
				break
			}
		}
		more = more || n == rowsChunk
		return rows.Err()
	})
	if err != nil {
		return nil, false, fmt.Errorf("read outgoing rows: %w", err)
	}
	if err := b.setAside(ctx, damaged); err != nil {
		return nil, false, err
	}
	b.unsent.Add(-waiting)
	return items, more, nil
}

// setAside marks damaged rows, so that they are never sent. The rows are kept.
func (b *Bus) setAside(ctx context.Context, damaged []int64) error {
	if len(damaged) == 0 {
		return nil
	}
	return b.db.Update(ctx, func(tx *db.Tx) error {
		for _, row := range damaged {
			res, err := tx.Exec("UPDATE redis_outgoing SET pos = -1 WHERE row = ? AND pos <> -1", row)
			if err != nil {
				return fmt.Errorf("set a damaged row aside: %w", err)
			}
			if n, err := res.RowsAffected(); err == nil && n > 0 {
				b.log.Error("an outgoing event was not sent", "error", db.DamagedRow("redis_outgoing", fmt.Sprint(row)))
			}
		}
		return nil
	})
}

// unmarked returns the rows to mark as sent, and the outputs that the database has not
// recorded yet.
func (b *Bus) unmarked(items []*item) (rows []*item, outputs []*output) {
	for _, it := range items {
		if it.row != 0 {
			rows = append(rows, it)
		}
		if o := it.output; o != nil && !o.noted && !slices.Contains(outputs, o) {
			outputs = append(outputs, o)
		}
	}
	return rows, outputs
}

// mark marks rows as sent and records outputs. It does not wait for a sync to disk:
// after a power cut the rows are sent again, and Redis ignores duplicates.
func (b *Bus) mark(rows []*item, outputs []*output) error {
	at := b.now().UnixMilli()
	err := b.db.UpdateRelaxed(context.Background(), func(tx *db.Tx) error {
		for _, it := range rows {
			if _, err := tx.Exec("UPDATE redis_outgoing SET pos = ?, batch = ?, sent_at = ? WHERE row = ?", it.pos, it.batch, at, it.row); err != nil {
				return err
			}
		}
		return noteOutputs(tx, outputs, at)
	})
	if err != nil {
		return fmt.Errorf("mark outgoing rows as sent: %w", err)
	}
	for _, o := range outputs {
		o.noted = true
	}
	b.unsent.Add(-int64(len(rows)))
	return nil
}

// sweep removes rows that were sent more than keepSent ago and whose events every group
// has committed. Groups without a consumer for longer than SilentAfter do not count.
func (b *Bus) sweep(ctx context.Context) error {
	now := b.now()
	for {
		var n int64
		err := b.db.UpdateRelaxed(ctx, func(tx *db.Tx) error {
			res, err := tx.Exec(`DELETE FROM redis_outgoing WHERE row IN (
				SELECT row FROM redis_outgoing o WHERE pos > 0 AND sent_at < ? AND NOT EXISTS (
					SELECT 1 FROM bus_topics t JOIN bus_groups g ON g.topic = t.id WHERE t.name = o.topic AND g.seen_at >= ? AND (g.cursor < o.pos
						OR EXISTS (SELECT 1 FROM bus_pending p WHERE p.grp = g.id AND p.seq = o.pos AND p.event IS NULL)))
				LIMIT ?)`, now.Add(-keepSent).UnixMilli(), now.Add(-b.opt.SilentAfter).UnixMilli(), sweepChunk)
			if err != nil {
				return err
			}
			n, err = res.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("remove outgoing rows: %w", err)
		}
		if n < sweepChunk {
			return nil
		}
	}
}
