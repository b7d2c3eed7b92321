package sqlitebus

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// seqBits is the number of low bits of a row number that hold the position within
	// the topic; the rest is the topic's id.
	seqBits = 32
	seqMax  = 1<<seqBits - 1
	// topicsCached is the maximum size of the topic cache; beyond it, the cache is
	// cleared.
	topicsCached = 20_000
	// appendRefresh is how far the recorded time of a topic's last append may lag.
	appendRefresh = 10 * time.Minute
	// chunkRows and chunkBytes are the maximum rows and bytes per read of the log.
	chunkRows  = 256
	chunkBytes = 4 << 20
)

// record is an event with its position in its topic.
type record = delivery.Record

func position(seq int64) bus.Position {
	if seq == 0 {
		return ""
	}
	return bus.Position(strconv.FormatInt(seq, 10))
}

func parsePosition(p bus.Position) (int64, error) {
	if p == "" {
		return 0, nil
	}
	seq, err := strconv.ParseInt(string(p), 10, 64)
	if err != nil || seq < 0 || seq > seqMax {
		return 0, fault.InvalidField("position", "%q is not a position of this bus.", string(p))
	}
	return seq, nil
}

func rowNumber(topic, seq int64) int64 { return topic<<seqBits | seq }

// topicState is the state of a topic that append needs.
type topicState struct {
	id         int64
	last       int64
	lastAppend int64
	expired    bool
}

type topicCache map[event.Topic]*topicState

// append is the database's publisher. It runs in the writer goroutine, in the caller's
// transaction.
func (b *Bus) append(tx *db.Tx, events []event.Event) error {
	added := make([]*record, 0, len(events))
	tx.AfterRollback(func() {
		for _, e := range events {
			delete(b.topics, e.Topic)
		}
	})
	tx.AfterCommit(func() {
		b.Feed(added)
		if b.opt.Fed != nil {
			b.opt.Fed(added)
		}
	})
	for _, e := range events {
		r, err := b.appendOne(tx, e)
		if err != nil {
			return fmt.Errorf("append event %q: %w", e.ID, err)
		}
		if r != nil {
			added = append(added, r)
		}
	}
	return nil
}

func (b *Bus) appendOne(tx *db.Tx, e event.Event) (*record, error) {
	at := tx.Now().UnixMilli()
	// The checksum must hold on every engine.
	e.ID, e.Type, e.Key, e.Lane = db.CleanText(e.ID), event.Type(db.CleanText(string(e.Type))), db.CleanText(e.Key), db.CleanText(e.Lane)
	t, err := b.topic(tx, e.Topic, at)
	if err != nil {
		return nil, err
	}
	if t.last == seqMax {
		return nil, fault.New(fault.LimitReached, "the topic %s is full", e.Topic)
	}
	var headers []byte
	if len(e.Headers) > 0 {
		if headers, err = json.Marshal(e.Headers); err != nil {
			return nil, err
		}
	}
	r := &record{Seq: t.last + 1, Event: e}
	if e.Data, err = longtext.Shorten(tx, e.Headers.RequestID(), e.Data); err != nil {
		return nil, err
	}
	pos := rowNumber(t.id, r.Seq)
	n, err := tx.ExecExpecting(1, `INSERT INTO bus_log (pos, topic, id, type, ts, key, lane, headers, data, at, sum)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, id) DO NOTHING`,
		pos, t.id, e.ID, string(e.Type), e.TS, e.Key, e.Lane, headers, []byte(e.Data), at, sumEvent(pos, at, e, headers))
	if err != nil || n == 0 {
		return nil, err
	}
	if err := b.Claim(tx, r); err != nil {
		return nil, err
	}
	t.last = r.Seq
	if t.expired || at-t.lastAppend > appendRefresh.Milliseconds() {
		if _, err := tx.Exec("UPDATE bus_topics SET last_append = ?, expired = 0 WHERE id = ?", at, t.id); err != nil {
			return nil, err
		}
		t.lastAppend, t.expired = at, false
	}
	return r, nil
}

// topic finds or creates a topic in a write transaction. If it creates one, the caller
// must remove the topic from the cache when the transaction is rolled back.
func (b *Bus) topic(tx *db.Tx, name event.Topic, at int64) (*topicState, error) {
	if t, ok := b.topics[name]; ok {
		return t, nil
	}
	if len(b.topics) >= topicsCached {
		clear(b.topics)
	}
	info, err := findTopic(tx, name)
	if err != nil {
		return nil, err
	}
	if info.id == 0 {
		if info.id, err = delivery.CreateTopic(tx, name, at); err != nil {
			return nil, err
		}
		info.lastAppend = at
	}
	t := &topicState{id: info.id, last: info.last, lastAppend: info.lastAppend, expired: info.expired}
	b.topics[name] = t
	return t, nil
}

// topicInfo is the state of a topic for readers; id 0 means that it does not exist.
type topicInfo struct {
	id, last, trimmed, lastAppend int64
	output, expired               bool
}

func findTopic(q db.Queryer, name event.Topic) (topicInfo, error) {
	var t topicInfo
	err := q.QueryRow("SELECT id, trimmed, last_append, output, expired FROM bus_topics WHERE name = ?", string(name)).
		Scan(&t.id, &t.trimmed, &t.lastAppend, &t.output, &t.expired)
	if errors.Is(err, db.ErrNoRows) {
		return topicInfo{}, nil
	}
	if err != nil {
		return t, fmt.Errorf("find topic %s: %w", name, err)
	}
	var last int64
	err = q.QueryRow("SELECT coalesce(max(pos), 0) FROM bus_log WHERE pos BETWEEN ? AND ?", rowNumber(t.id, 0), rowNumber(t.id, seqMax)).Scan(&last)
	if err != nil {
		return t, fmt.Errorf("find end of topic %s: %w", name, err)
	}
	t.last = max(last&seqMax, t.trimmed)
	return t, nil
}

const columns = "pos, topic, id, type, ts, key, lane, headers, data, at, sum"

// readLog returns up to limit records of a topic after the given position. At a damaged
// or missing row, it returns the records before it and an error.
func readLog(q db.Queryer, topic event.Topic, id, after int64, lane string, limit int) ([]*record, error) {
	query := "SELECT " + columns + " FROM bus_log WHERE pos > ? AND pos <= ? ORDER BY pos LIMIT ?"
	args := []any{rowNumber(id, after), rowNumber(id, seqMax), limit}
	if lane != "" {
		query = "SELECT " + columns + " FROM bus_log WHERE pos > ? AND pos <= ? AND lane = ? ORDER BY pos LIMIT ?"
		args = []any{args[0], args[1], lane, limit}
	}
	rows, err := q.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read topic %s: %w", topic, err)
	}
	defer rows.Close()
	var out []*record
	size := 0
	for size < chunkBytes && rows.Next() {
		r, err := scanRecord(q, rows, topic)
		// Check the position first: a row with a wrong number leaves a gap before it,
		// which must be reported, and skipped, as one damage.
		if want := after + int64(len(out)) + 1; lane == "" && r.Seq > want {
			return out, &delivery.Damaged{Seq: r.Seq - 1, Err: db.DamagedRow("bus_log", fmt.Sprintf("%s/%d (missing)", topic, want))}
		}
		if err != nil {
			return out, err
		}
		out = append(out, r)
		size += len(r.Data)
	}
	if err := rows.Err(); err != nil {
		return out, fmt.Errorf("read topic %s: %w", topic, err)
	}
	return out, nil
}

// readOne returns the record at a position, or nil if it is not in the log.
func readOne(q db.Queryer, topic event.Topic, id, seq int64) (*record, error) {
	rows, err := q.Query("SELECT "+columns+" FROM bus_log WHERE pos = ?", rowNumber(id, seq))
	if err != nil {
		return nil, fmt.Errorf("read event %s/%d: %w", topic, seq, err)
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	r, err := scanRecord(q, rows, topic)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// scanRecord reads and verifies a row. It sets the position even if the row is damaged.
func scanRecord(q db.Queryer, rows db.Rows, topic event.Topic) (*record, error) {
	var (
		r                     = &record{}
		pos, topicID, at, sum int64
		headers, data         []byte
	)
	err := rows.Scan(&pos, &topicID, &r.ID, &r.Type, &r.TS, &r.Key, &r.Lane, &headers, &data, &at, &sum)
	r.Seq, r.Topic, r.Data = pos&seqMax, topic, data
	if err != nil || topicID != pos>>seqBits || sum != sumEvent(pos, at, r.Event, headers) {
		return r, db.DamagedRow("bus_log", fmt.Sprintf("%s/%d", topic, r.Seq)) // a scan fails if damage changed the type of a value
	}
	if len(headers) > 0 {
		if err := json.Unmarshal(headers, &r.Headers); err != nil {
			return r, db.DamagedRow("bus_log", fmt.Sprintf("%s/%d", topic, r.Seq))
		}
	}
	r.Data, err = longtext.Restore(q, r.Data)
	return r, err
}

// sumEvent returns the checksum of a row of the log.
func sumEvent(pos, at int64, e event.Event, headers []byte) int64 {
	var numbers [24]byte
	binary.LittleEndian.PutUint64(numbers[0:], uint64(pos))
	binary.LittleEndian.PutUint64(numbers[8:], uint64(at))
	binary.LittleEndian.PutUint64(numbers[16:], uint64(e.TS))
	var sum db.Sum
	sum.Add(numbers[:])
	for _, part := range [...]string{string(e.Topic), e.ID, string(e.Type), e.Key, e.Lane} {
		sum.AddText(part)
	}
	sum.Add(headers)
	sum.Add(e.Data)
	return sum.Value()
}
