package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
)

// write stores a plan before anything acts on it. It does not sync: a
// power cut may undo it, and then events are handled again, never lost. It retries
// while the database cannot be written, because every attempt must be counted
// before it runs; it gives up when all consumers are stopping.
func (g *group) write(p *plan) error {
	if p.empty(g) {
		return nil
	}
	for {
		err := g.b.db.UpdateRelaxed(context.Background(), func(tx *db.Tx) error { return g.writeAll(tx, p) })
		if err == nil {
			break
		}
		err = fmt.Errorf("write deliveries: %w", err)
		g.setError(err)
		if g.allStopping() {
			close(g.gaveUp)
			g.undo(p)
			return err
		}
		g.b.log.Error("cannot write deliveries; retrying", "topic", g.name.topic, "group", g.name.name, "error", err)
		select {
		case <-time.After(writeRetry):
		case <-g.stop:
		}
	}
	if p.cursor > g.written {
		g.written, g.skipSince = p.cursor, time.Time{}
	}
	for _, e := range p.insert {
		e.stored = true
	}
	return nil
}

func (g *group) writeAll(tx *db.Tx, p *plan) error {
	p.alreadyCommitted = p.alreadyCommitted[:0]
	for _, write := range []func(*db.Tx, *plan) error{
		g.writeTaken, g.writeChanged, g.writeCommitted, g.writeDeadLetters, g.writeRenewed,
	} {
		if err := write(tx, p); err != nil {
			return err
		}
	}
	if p.cursor <= g.written {
		return nil
	}
	g.noteCursor(tx, p.cursor)
	_, err := tx.Exec(moveCursor, p.cursor, g.id, p.cursor)
	return err
}

// allStopping reports whether every consumer is stopping.
func (g *group) allStopping() bool {
	for _, c := range g.consumers {
		if c.ctx.Err() == nil {
			return false
		}
	}
	return true
}

// writeRetry is the delay before a failed write is retried. A full disk does not clear sooner.
const writeRetry = 500 * time.Millisecond

const (
	insertPending = `INSERT INTO bus_pending (grp, seq, lane, attempt, consumer, lease_until, not_before, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (grp, seq) DO UPDATE SET lane = excluded.lane, attempt = excluded.attempt, consumer = excluded.consumer,
			lease_until = excluded.lease_until, not_before = excluded.not_before, reason = excluded.reason, event = NULL, sum = NULL`
	moveCursor = "UPDATE bus_groups SET cursor = ? WHERE id = ? AND cursor < ?"
)

func (g *group) writeTaken(tx *db.Tx, p *plan) error {
	for _, e := range p.insert {
		_, err := tx.Exec(insertPending, g.id, e.seq, e.lane.name, e.attempt, e.consumer, e.leaseUntil, e.notBefore, e.reason)
		if err != nil {
			return err
		}
	}
	return nil
}

// writeChanged updates the pending rows. If a row is missing, an abandoned handler has
// committed the event after all.
func (g *group) writeChanged(tx *db.Tx, p *plan) error {
	for _, e := range p.update {
		res, err := tx.Exec(`UPDATE bus_pending SET attempt = ?, consumer = ?, lease_until = ?, not_before = ?, reason = ?
			WHERE grp = ? AND seq = ?`, e.attempt, e.consumer, e.leaseUntil, e.notBefore, e.reason, g.id, e.seq)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			p.alreadyCommitted = append(p.alreadyCommitted, e)
		}
	}
	return nil
}

func (g *group) writeCommitted(tx *db.Tx, p *plan) error {
	for _, e := range p.commit {
		if _, err := tx.Exec("DELETE FROM bus_pending WHERE grp = ? AND seq = ?", g.id, e.seq); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) writeDeadLetters(tx *db.Tx, p *plan) error {
	for _, e := range p.deadLetters {
		res, err := tx.Exec("DELETE FROM bus_pending WHERE grp = ? AND seq = ?", g.id, e.seq)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			continue // an abandoned handler has committed it after all
		}
		g.b.log.Error("event moved to the dead letters", "topic", g.name.topic, "group", g.name.name,
			"event_id", e.rec.ID, "attempts", e.attempt, "reason", e.reason)
		if err := g.writeDeadLetter(tx, e); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) writeDeadLetter(tx *db.Tx, e *entry) error {
	body, err := json.Marshal(e.rec.Event)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	d := bus.DeadLetter{
		ID: ulid.MustNewDefault(tx.Now()).String(), Group: g.name.name, Reason: db.CleanText(e.reason), Attempts: e.attempt, At: tx.Now().UnixMilli(),
	}
	topic := string(g.name.topic)
	_, err = tx.Exec(`INSERT INTO bus_dead_letters (id, grp, topic, seq, event, reason, attempts, at, sum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, d.ID, d.Group, topic, e.seq, body, d.Reason, d.Attempts, d.At, sumDeadLetter(d, topic, e.seq, body))
	return err
}

func (g *group) writeRenewed(tx *db.Tx, p *plan) error {
	for _, e := range p.renew {
		_, err := tx.Exec("UPDATE bus_pending SET lease_until = ? WHERE grp = ? AND seq = ? AND attempt = ?",
			e.leaseUntil, g.id, e.seq, e.attempt)
		if err != nil {
			return err
		}
	}
	return nil
}

// undo removes the runs of a plan that was not written; they have not started.
func (g *group) undo(p *plan) {
	for _, r := range p.start {
		delete(g.running, r)
		r.c.running--
	}
}

// flush writes a cursor that only skipped events, and releases claims that did not
// start. After an abandoned write, the cursor in memory is ahead of the pending
// rows; writing it would lose events.
func (g *group) flush() {
	if g.broken() {
		return
	}
	p := &plan{cursor: g.cursor}
	g.releaseClaims(p)
	if err := g.write(p); err != nil {
		g.b.log.Warn("cannot write the cursor of a group; some events are read again", "topic", g.name.topic,
			"group", g.name.name, "error", err)
	}
}

func decodeReplay(seq int64, stored []byte, sum *int64) (*Record, error) {
	r := &Record{Seq: seq}
	if err := json.Unmarshal(stored, &r.Event); err != nil || sum != nil && *sum != db.Checksum(stored) {
		return nil, db.DamagedRow("bus_pending", fmt.Sprint(seq))
	}
	return r, nil
}
