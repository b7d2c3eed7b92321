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
	// unsentMax bounds the rows that wait for Redis: hours of work, and less
	// than a gigabyte. Beyond it publishing is refused.
	unsentMax = 500_000
	// rowsChunk bounds the rows of one batch.
	rowsChunk = 256
	// chunkBytes bounds the data of one batch. One event may be larger.
	chunkBytes = 4 << 20
	// keepSent is how long a row is kept at least after it was sent: longer
	// than an append-only file that is synced every second can lag.
	keepSent = time.Minute
	// sweepChunk bounds one transaction that removes rows.
	sweepChunk = 1000
)

// item is an event on its way to Redis.
type item struct {
	topic  event.Topic
	id     string
	hash   hashedID         // of the id of an output's event
	entry  string           // what Redis is sent
	record *delivery.Record // what is told when Redis has it, nil when that was told
	output *output          // set when it is sent; nil for another topic
	row    int64            // 0 when it has no row
	pos    int64            // its place, 0 until it has one
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

// write is the database's publisher: it runs in the writer.
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

// rows reads items up to a limit of rows, and of bytes. A damaged row is left out;
// it is named in the log and never sent.
func (b *Bus) rows(ctx context.Context, most int, query string, args ...any) (items []*item, more bool, err error) {
	var damaged []int64
	waiting := int64(0) // of the damaged ones
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

// setAside keeps damaged rows from being sent. They stay where they are.
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

// unmarked returns what has to be noted of items that were sent: the rows, and
// which outputs there are.
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

// mark notes that rows were sent, and outputs. It waits for no sync: after a
// power cut they are sent again, which changes nothing.
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

// sweep removes rows that were sent a while ago and whose events every group
// has committed. A group that is silent for too long keeps none.
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
