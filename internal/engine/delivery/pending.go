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

// planWriter stores the plans of a group.
type planWriter struct{ *group }

// write stores a plan before anything acts on it. It does not sync: a
// power cut may undo it, and then events are handled again, never lost. It retries
// while the database cannot be written, because every attempt must be counted
// before it runs; it gives up when all consumers are stopping.
func (w planWriter) write(p *plan) error {
	if p.empty(w.group) {
		return nil
	}
	update := func(fn func(*db.Tx) error) error { return w.b.db.UpdateRelaxed(context.Background(), fn) }
	if p.onlyCommits() && !w.allStopping() { // a stop waits for it
		update = func(fn func(*db.Tx) error) error {
			hurried, err := w.b.db.UpdateLazy(w.wake, fn)
			if hurried {
				w.wakeDispatcher()
			}
			return err
		}
	}
	for {
		err := update(func(tx *db.Tx) error { return w.writeAll(tx, p) })
		if err == nil {
			break
		}
		err = fmt.Errorf("write deliveries: %w", err)
		first := w.lastError() == nil
		w.setError(err)
		if w.allStopping() {
			close(w.gaveUp)
			w.undo(p)
			return err
		}
		if first { // log once, not at every retry
			w.b.log.Error("cannot write deliveries; retrying", "topic", w.name.topic, "group", w.name.name, "error", err)
		}
		select {
		case <-time.After(writeRetry):
		case <-w.stop:
		}
	}
	if p.cursor > w.written {
		w.written, w.skipSince = p.cursor, time.Time{}
	}
	for _, e := range p.insert {
		e.stored = true
	}
	return nil
}

func (w planWriter) writeAll(tx *db.Tx, p *plan) error {
	p.alreadyCommitted = p.alreadyCommitted[:0]
	for _, write := range []func(*db.Tx, *plan) error{
		w.writeTaken, w.writeChanged, w.writeCommitted, w.writeDeadLetters, w.writeRenewed,
	} {
		if err := write(tx, p); err != nil {
			return err
		}
	}
	if p.cursor <= w.written {
		return nil
	}
	w.noteCursor(tx, p.cursor)
	_, err := tx.Exec(moveCursor, p.cursor, w.id, p.cursor)
	return err
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

func (w planWriter) writeTaken(tx *db.Tx, p *plan) error {
	for _, e := range p.insert {
		_, err := tx.Exec(insertPending, w.id, e.seq, e.lane.name, e.attempt, e.consumer, e.leaseUntil, e.notBefore, e.reason)
		if err != nil {
			return err
		}
	}
	return nil
}

// writeChanged updates the pending rows. If a row is missing, an abandoned handler has
// committed the event after all.
func (w planWriter) writeChanged(tx *db.Tx, p *plan) error {
	for _, e := range p.update {
		res, err := tx.Exec(`UPDATE bus_pending SET attempt = ?, consumer = ?, lease_until = ?, not_before = ?, reason = ?
			WHERE grp = ? AND seq = ?`, e.attempt, e.consumer, e.leaseUntil, e.notBefore, e.reason, w.id, e.seq)
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

func (w planWriter) writeCommitted(tx *db.Tx, p *plan) error {
	for _, e := range p.commit {
		if _, err := tx.Exec("DELETE FROM bus_pending WHERE grp = ? AND seq = ?", w.id, e.seq); err != nil {
			return err
		}
	}
	return nil
}

func (w planWriter) writeDeadLetters(tx *db.Tx, p *plan) error {
	for _, e := range p.deadLetters {
		res, err := tx.Exec("DELETE FROM bus_pending WHERE grp = ? AND seq = ?", w.id, e.seq)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			continue // an abandoned handler has committed it after all
		}
		w.b.log.Error("event moved to the dead letters", "topic", w.name.topic, "group", w.name.name,
			"event_id", e.rec.ID, "attempts", e.attempt, "reason", e.reason)
		if err := w.writeDeadLetter(tx, e); err != nil {
			return err
		}
	}
	return nil
}

func (w planWriter) writeDeadLetter(tx *db.Tx, e *entry) error {
	body, err := json.Marshal(e.rec.Event)
	if err != nil {
		return fmt.Errorf("encode dead letter: %w", err)
	}
	d := bus.DeadLetter{
		ID: ulid.MustNewDefault(tx.Now()).String(), Group: w.name.name, Reason: db.CleanText(e.reason), Attempts: e.attempt, At: tx.Now().UnixMilli(),
	}
	topic := string(w.name.topic)
	_, err = tx.Exec(`INSERT INTO bus_dead_letters (id, grp, topic, seq, event, reason, attempts, at, sum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, d.ID, d.Group, topic, e.seq, body, d.Reason, d.Attempts, d.At, sumDeadLetter(d, topic, e.seq, body))
	return err
}

func (w planWriter) writeRenewed(tx *db.Tx, p *plan) error {
	for _, e := range p.renew {
		_, err := tx.Exec("UPDATE bus_pending SET lease_until = ? WHERE grp = ? AND seq = ? AND attempt = ?",
			e.leaseUntil, w.id, e.seq, e.attempt)
		if err != nil {
			return err
		}
	}
	return nil
}

// undo removes the runs of a plan that was not written; they have not started.
func (w planWriter) undo(p *plan) {
	for _, r := range p.start {
		delete(w.running, r)
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
	if err := (planWriter{g}).write(p); err != nil {
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
