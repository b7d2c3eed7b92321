package delivery

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// deadLettersMax is the maximum number of dead letters per page.
const deadLettersMax = 500

// damagedType is the event type of a dead letter that replaces a damaged record.
const damagedType event.Type = "damaged"

// sumDeadLetter returns the checksum over all columns of a row.
func sumDeadLetter(d bus.DeadLetter, topic string, seq int64, body []byte) int64 {
	var numbers [24]byte
	binary.LittleEndian.PutUint64(numbers[0:], uint64(seq))
	binary.LittleEndian.PutUint64(numbers[8:], uint64(d.Attempts))
	binary.LittleEndian.PutUint64(numbers[16:], uint64(d.At))
	return db.Checksum(numbers[:], []byte(d.ID), []byte(d.Group), []byte(topic), []byte(d.Reason), body)
}

// sealDeadLetters replaces checksums in the old format, which did not cover the reason
// and the numbers. A row whose checksum is wrong stays damaged.
func sealDeadLetters(tx *db.Tx) error {
	rows, err := tx.Query("SELECT " + deadColumns + " FROM bus_dead_letters")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var d bus.DeadLetter
		var topic string
		var seq, sum int64
		var body []byte
		if err := rows.Scan(&d.ID, &d.Group, &topic, &seq, &body, &d.Reason, &d.Attempts, &d.At, &sum); err != nil {
			return err
		}
		if sum != db.Checksum([]byte(d.ID), []byte(d.Group), []byte(topic), body) {
			continue
		}
		if _, err := tx.Exec("UPDATE bus_dead_letters SET sum = ? WHERE id = ?", sumDeadLetter(d, topic, seq, body), d.ID); err != nil {
			return err
		}
	}
	return rows.Err()
}

const deadColumns = "id, grp, topic, seq, event, reason, attempts, at, sum"

func scanDeadLetter(row interface{ Scan(...any) error }) (d bus.DeadLetter, seq int64, body []byte, err error) {
	var topic string
	var sum int64
	err = row.Scan(&d.ID, &d.Group, &topic, &seq, &body, &d.Reason, &d.Attempts, &d.At, &sum)
	if errors.Is(err, db.ErrNoRows) {
		return d, 0, nil, err
	}
	// A scan fails if damage changed the type of a value.
	if err != nil || sum != sumDeadLetter(d, topic, seq, body) || json.Unmarshal(body, &d.Event) != nil {
		return d, 0, nil, db.DamagedRow("bus_dead_letters", d.ID)
	}
	d.Event.Topic = event.Topic(topic)
	return d, seq, body, nil
}

// DeadLetters lists dead letters, newest first. A damaged one is listed as damaged,
// without its event.
func (b *Engine) DeadLetters(ctx context.Context, before string, limit int) ([]bus.DeadLetter, error) {
	if limit <= 0 || limit > deadLettersMax {
		limit = deadLettersMax
	}
	var out []bus.DeadLetter
	err := b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query("SELECT "+deadColumns+" FROM bus_dead_letters WHERE ? = '' OR id < ? ORDER BY id DESC LIMIT ?",
			before, before, limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			d, _, _, err := scanDeadLetter(rows)
			if db.IsDamaged(err) { // list it, so that it can be dropped
				d, err = bus.DeadLetter{ID: d.ID, Event: event.Event{Type: damagedType}, Reason: err.Error()}, nil
			}
			if err != nil {
				return err
			}
			out = append(out, d)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return out, nil
}

// DeadLetter returns one dead letter, or a fault.NotFound.
func (b *Engine) DeadLetter(ctx context.Context, id string) (d bus.DeadLetter, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		d, _, _, err = findDeadLetter(q, id)
		return err
	})
	return d, err
}

func findDeadLetter(q db.Queryer, id string) (bus.DeadLetter, int64, []byte, error) {
	d, seq, body, err := scanDeadLetter(q.QueryRow("SELECT "+deadColumns+" FROM bus_dead_letters WHERE id = ?", id))
	if errors.Is(err, db.ErrNoRows) {
		return d, 0, nil, fault.New(fault.NotFound, "There is no dead letter %q.", id)
	}
	if err != nil {
		return d, 0, nil, fmt.Errorf("read dead letter: %w", err)
	}
	return d, seq, body, nil
}

// Replay delivers a dead letter to its group again and removes it.
func (b *Engine) Replay(ctx context.Context, id string) error {
	return b.db.Update(ctx, func(tx *db.Tx) error {
		d, seq, body, err := findDeadLetter(tx, id)
		if err != nil {
			return err
		}
		if d.Event.Type == damagedType {
			return fault.New(fault.Conflict, "The event of the dead letter %q is damaged; it cannot be replayed.", id)
		}
		grp, err := findGroup(tx, d.Event.Topic, d.Group)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO bus_pending (grp, seq, attempt, consumer, lease_until, not_before, reason, event, sum)
			VALUES (?, ?, 0, '', 0, 0, '', ?, ?)
			ON CONFLICT (grp, seq) DO UPDATE SET lane = '', attempt = 0, consumer = '', lease_until = 0, not_before = 0, reason = '',
				event = excluded.event, sum = excluded.sum`, grp, seq, body, db.Checksum(body))
		if err != nil {
			return fmt.Errorf("replay dead letter: %w", err)
		}
		tx.AfterCommit(func() { b.replayed(groupName{d.Event.Topic, d.Group}, seq) })
		return remove(tx, id)
	})
}

// replayed notifies the dispatcher of a group, if it has one, of a new pending row.
func (b *Engine) replayed(name groupName, seq int64) {
	g := b.attached(name.topic, name.name)
	if g == nil {
		return
	}
	g.post(func() {
		err := b.db.Read(context.Background(), func(q db.Queryer) error { return g.loadPending(q, seq) })
		if err != nil {
			g.b.log.Error("a replayed event waits for a restart", "topic", name.topic, "group", name.name, "error", err)
			return
		}
		if e := g.entries[seq]; e != nil {
			g.schedule(e.lane, b.opt.Now().UnixMilli())
		}
	})
}

// Drop deletes a dead letter permanently.
func (b *Engine) Drop(ctx context.Context, id string) error {
	return b.db.Update(ctx, func(tx *db.Tx) error { return remove(tx, id) })
}

func remove(tx *db.Tx, id string) error {
	res, err := tx.Exec("DELETE FROM bus_dead_letters WHERE id = ?", id)
	if err != nil {
		return fmt.Errorf("remove dead letter: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return fault.New(fault.NotFound, "There is no dead letter %q.", id)
}

// VerifyDeadLetters reads every dead letter and reports the damaged ones by name.
func VerifyDeadLetters(q db.Queryer) (bad []string, err error) {
	rows, err := q.Query("SELECT " + deadColumns + " FROM bus_dead_letters")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if _, _, _, err := scanDeadLetter(rows); db.IsDamaged(err) {
			bad = append(bad, err.Error())
		} else if err != nil {
			return bad, err
		}
	}
	return bad, rows.Err()
}
