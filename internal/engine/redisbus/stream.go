package redisbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// chunkEntries is the maximum number of entries per read, so that a long read does not
// delay other commands on the connection.
const chunkEntries = 256

// stream implements [delivery.Log] on Redis Streams.
type stream struct {
	link *link
	db   *db.DB
}

var _ delivery.Log = (*stream)(nil)

// Topic implements delivery.Log.
func (l *stream) Topic(ctx context.Context, topic event.Topic) (delivery.Topic, error) {
	info, _, err := l.read(ctx, topic, 0, 0)
	return info, err
}

// Read implements delivery.Log.
func (l *stream) Read(ctx context.Context, topic event.Topic, after int64, lane string, limit int) (delivery.Topic, []*delivery.Record, error) {
	for {
		info, records, err := l.read(ctx, topic, after, limit)
		if lane == "" || len(records) == 0 {
			return info, records, err
		}
		after = records[len(records)-1].Seq
		kept := slices.DeleteFunc(records, func(r *delivery.Record) bool { return r.Lane != lane })
		if len(kept) > 0 || err != nil {
			return info, kept, err
		}
	}
}

// read reads a topic. If Redis has no such output, but the database recorded it, Redis
// may have lost it. It may also have been created after the first query, because
// outputs are recorded after they are sent; so read queries Redis once more.
func (l *stream) read(ctx context.Context, topic event.Topic, after int64, limit int) (info delivery.Topic, records []*delivery.Record, err error) {
	info, records, err = l.ask(ctx, topic, after, limit, false)
	if _, output := topic.OutputRequest(); err != nil || !output || info.Exists {
		return info, records, err
	}
	if was, err := outputNoted(ctx, l.db, topic); err != nil || !was {
		return info, records, err
	}
	return l.ask(ctx, topic, after, limit, true)
}

// ask reads a topic in one pipeline. It queries the newest entry first, so that no
// entry up to Last is missing, and the trimmed position last, so that it notices every
// gap. noted means that the database has recorded the topic, so the topic existed even
// if Redis does not have it.
func (l *stream) ask(ctx context.Context, topic event.Topic, after int64, limit int, noted bool) (info delivery.Topic, records []*delivery.Record, err error) {
	client, check, err := l.link.reading()
	if err != nil {
		return info, nil, err
	}
	k := l.link.keys(topic)
	_, output := topic.OutputRequest()
	from := "-"
	if after > 0 {
		from = "(" + entryID(after)
	}
	newest := client.B().Hmget().Key(k.meta).Field("l").Build()
	if output {
		newest = client.B().Xrevrange().Key(k.stream).End("+").Start("-").Count(1).Build()
	}
	cmds := rueidis.Commands{client.B().Hmget().Key(l.link.claim).Field("epoch", "batch").Build(), newest}
	limit = min(limit, l.link.reads.limit(chunkEntries))
	if limit > 0 {
		cmds = append(cmds, client.B().Xrange().Key(k.stream).Start(from).End("+").Count(int64(limit)).Build())
	}
	cmds = append(cmds, client.B().Hmget().Key(k.meta).Field("t").Build())
	ctx, cancel := context.WithTimeout(ctx, l.link.within)
	defer cancel()
	began := time.Now()
	replies := client.DoMulti(ctx, cmds...)
	took := time.Since(began)
	if limit > 0 && replies[2].Error() != nil {
		l.link.reads.observe(took, l.link.within, false, replies[2].Error())
	}
	if err := check(replies[0]); err != nil {
		return info, nil, err
	}
	if output {
		info.Last, info.Exists, err = newestEntry(replies[1])
	} else {
		info.Last, info.Exists, err = oneEntryID(replies[1])
	}
	if err != nil {
		return info, nil, l.link.unreadable(err)
	}
	trimmed, was, err := oneEntryID(replies[len(replies)-1])
	if err != nil {
		return info, nil, l.link.unreadable(err)
	}
	info.Trimmed = trimmed
	if output && !info.Exists {
		info.Exists = was || noted
		info.Expired, info.Last = info.Exists, trimmed
	}
	if limit <= 0 {
		return info, nil, nil
	}
	entries, err := replies[2].AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return info, nil, l.link.unreadable(err)
	}
	l.link.reads.observe(took, l.link.within, len(entries) == limit, nil)
	records, err = decodeEntries(topic, entries)
	return info, records, err
}

// oneEntryID reads the reply to HMGET of one field that holds an entry id.
func oneEntryID(reply rueidis.RedisResult) (seq int64, ok bool, err error) {
	values, err := reply.ToArray()
	if err != nil || len(values) != 1 || values[0].IsNil() {
		return 0, false, err
	}
	text, err := values[0].ToString()
	if err != nil {
		return 0, false, err
	}
	if seq, ok = parseEntryID(text); !ok {
		return 0, false, fmt.Errorf("%q is not the id of an entry of ours", text)
	}
	return seq, true, nil
}

// newestEntry reads the reply to XREVRANGE of one entry.
func newestEntry(reply rueidis.RedisResult) (seq int64, ok bool, err error) {
	entries, err := reply.AsXRange()
	if rueidis.IsRedisNil(err) || err == nil && len(entries) == 0 {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if seq, ok = parseEntryID(entries[0].ID); !ok {
		return 0, false, fmt.Errorf("%q is not the id of an entry of ours", entries[0].ID)
	}
	return seq, true, nil
}

// decodeEntries decodes entries up to the first one that is damaged or was added by
// another program. The id of a foreign entry is not a position, so the entries after it
// cannot be read.
func decodeEntries(topic event.Topic, entries []rueidis.XRangeEntry) ([]*delivery.Record, error) {
	records := make([]*delivery.Record, 0, len(entries))
	for _, entry := range entries {
		seq, ok := parseEntryID(entry.ID)
		if !ok && len(records) > 0 {
			return records, nil
		}
		if !ok {
			return nil, foreign(topic, entry.ID)
		}
		e, err := decodeFields(topic, entry.FieldValues)
		if err != nil {
			return records, damagedEntry(topic, seq)
		}
		records = append(records, &delivery.Record{Seq: seq, Event: e})
	}
	return records, nil
}

// foreign returns the error for an entry whose id is not a valid position.
func foreign(topic event.Topic, id string) error {
	return fault.New(fault.Unavailable, "The entry %s of the topic %s in Redis was added by another program. Write the stream anew without it (XDEL leaves its place taken; docs/operations.md has the command), or use another bus.prefix.", brief(id), topic)
}

// One implements delivery.Log.
func (l *stream) One(ctx context.Context, topic event.Topic, seq int64) (*delivery.Record, error) {
	entry, err := l.first(ctx, topic, entryID(seq), entryID(seq))
	if err != nil || entry == nil {
		return nil, err
	}
	records, err := decodeEntries(topic, []rueidis.XRangeEntry{*entry})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}

// Appended implements delivery.Log.
func (l *stream) Appended(ctx context.Context, topic event.Topic, seq int64) (int64, error) {
	entry, err := l.first(ctx, topic, entryID(seq), "+")
	if err != nil || entry == nil {
		return 0, err
	}
	_, appended, _, _ := unsealed(entry.FieldValues["e"])
	at, err := strconv.ParseInt(appended, 10, 64)
	if err != nil {
		return 0, nil // the entry is damaged; reading it reports that
	}
	return at, nil
}

// first returns the first entry of a range, or nil.
func (l *stream) first(ctx context.Context, topic event.Topic, from, to string) (*rueidis.XRangeEntry, error) {
	client, check, err := l.link.reading()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.link.within)
	defer cancel()
	replies := client.DoMulti(ctx,
		client.B().Hmget().Key(l.link.claim).Field("epoch", "batch").Build(),
		client.B().Xrange().Key(l.link.keys(topic).stream).Start(from).End(to).Count(1).Build())
	if err := check(replies[0]); err != nil {
		return nil, err
	}
	entries, err := replies[1].AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, l.link.unreadable(err)
	}
	if len(entries) == 0 {
		return nil, nil
	}
	return &entries[0], nil
}

// errNotWhole means that Redis lost batches and the forwarder will restore them.
var errNotWhole = errors.New("redis lost events; they are being sent again")
