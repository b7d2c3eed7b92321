package companion

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// fewEntries is how many entries at the end of a stream are compared with the log, and
	// manyEntries how many if none of the few agrees.
	fewEntries  = 16
	manyEntries = deadMax
	// rebuildEvery is how often a stream may be built again: another program may go on
	// writing to it.
	rebuildEvery = 5 * time.Second
)

// ending is the end of a stream: its last id, and its last entries, newest first.
type ending struct {
	last    string
	entries []rueidis.XRangeEntry
}

// finding is the result of comparing a stream's end with the log.
type finding struct {
	// rebuild means that the stream cannot be continued.
	rebuild bool
	// cursor is the position to continue after.
	cursor int64
	// foreign is the number of entries at the end that are not of the log.
	foreign int
}

// judge decides how to continue a stream. agrees reports whether an entry is the event of
// its position in the log, and trimmed is the position up to which the log was trimmed.
func judge(e ending, trimmed int64, agrees func(rueidis.XRangeEntry) bool) finding {
	for i, entry := range e.entries {
		if !agrees(entry) {
			continue
		}
		seq, _ := parseEntryID(entry.ID)
		return finding{rebuild: i > 0 || entry.ID != e.last, cursor: seq, foreign: i}
	}
	if seq, ok := parseEntryID(e.last); ok && len(e.entries) == 0 && seq <= trimmed {
		return finding{cursor: seq} // nothing was there yet, or everything was trimmed
	}
	return finding{rebuild: true, foreign: len(e.entries)}
}

// compare finds out where the stream of a topic continues. A stream that cannot be
// continued is emptied. If that must wait, the topic stays unknown.
func (m *mirror) compare(ctx context.Context, t *topic) error {
	key := m.opt.stream(t.name)
	e, err := m.ending(ctx, key, fewEntries)
	if isReply(err, "WRONGTYPE") {
		t.heldUntil = time.Now().Add(m.opt.CheckEvery)
		m.setTrouble(key, fault.New(fault.Unavailable, "%s is no stream, so its topic is not mirrored. Delete or rename that key", key))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the end of %s: %w", key, err)
	}
	state, err := m.opt.Log.Topic(ctx, t.name)
	if err != nil {
		return fmt.Errorf("read the state of %s: %w", t.name, err)
	}
	var failed error
	agrees := func(entry rueidis.XRangeEntry) bool {
		seq, ok := parseEntryID(entry.ID)
		if !ok || failed != nil {
			return false
		}
		r, err := m.opt.Log.One(ctx, t.name, seq)
		if err != nil && !db.IsDamaged(err) {
			failed = err
		}
		return err == nil && r != nil && r.ID == entry.FieldValues[fieldID]
	}
	found := judge(e, state.Trimmed, agrees)
	if found.foreign == fewEntries {
		if e, err = m.ending(ctx, key, manyEntries); err != nil {
			return fmt.Errorf("read the end of %s: %w", key, err)
		}
		found = judge(e, state.Trimmed, agrees)
	}
	if failed != nil {
		return fmt.Errorf("compare %s with the log: %w", key, failed)
	}
	if found.rebuild {
		if wait := rebuildEvery - time.Since(t.rebuilt); wait > 0 {
			t.heldUntil = time.Now().Add(wait)
			return nil
		}
		if err := m.rebuild(ctx, t, e, found); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.known, t.cursor, t.trimmed = true, found.cursor, 0
	if t.top = entryID(found.cursor); found.rebuild {
		t.cursor, t.top = 0, entryID(0)
	}
	m.dropQueueLocked(t) // what it has need not follow the cursor
	return nil
}

// rebuild keeps foreign entries in the stream of dead entries, and empties the stream.
func (m *mirror) rebuild(ctx context.Context, t *topic, e ending, found finding) error {
	key := m.opt.stream(t.name)
	level := slog.LevelDebug // another program may go on
	if time.Since(t.rebuilt) >= logEvery {
		level = slog.LevelWarn
	}
	m.log.Log(ctx, level, "a mirrored stream is built again, because another program changed it", "key", key, "foreign", found.foreign, "last", e.last)
	for i := found.foreign - 1; i >= 0; i-- {
		entry := e.entries[i]
		if err := bury(ctx, m.client, m.opt, key, entry, "another program added it to a mirrored stream; hand in events in "+m.opt.key(keyIn)); err != nil {
			return err
		}
	}
	doing, cancel := context.WithTimeout(ctx, m.opt.ReplyWithin)
	defer cancel()
	if err := m.client.Do(doing, rebuildScript.call(m.client, true, key, fmt.Sprint(found.cursor))).Error(); err != nil {
		return fmt.Errorf("empty %s: %w", key, err)
	}
	t.rebuilt = time.Now()
	return nil
}

// ending reads the end of a stream, or the end of an empty one if the key is missing.
func (m *mirror) ending(ctx context.Context, key string, count int64) (e ending, err error) {
	ctx, done := m.bound(ctx, 0)
	defer done()
	replies := m.client.DoMulti(ctx,
		m.client.B().XinfoStream().Key(key).Build(),
		m.client.B().Xrevrange().Key(key).End("+").Start("-").Count(count).Build())
	e.last = entryID(0)
	info, err := replies[0].AsMap()
	if err != nil && !isReply(err, "no such key") {
		return e, err
	}
	if last, ok := info["last-generated-id"]; ok {
		if e.last, err = last.ToString(); err != nil {
			return e, err
		}
	}
	e.entries, err = replies[1].AsXRange()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return e, err
}
