package redisbus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// badMax is the maximum number of problems to report.
const badMax = 1000

// Verify reads every entry below the prefix and reports each damaged or missing one. It
// changes nothing, and can run while another process uses the prefix.
func Verify(ctx context.Context, opt Options) (bad []string, err error) {
	opt = opt.withDefaults()
	b := &Bus{opt: opt, link: newLink(opt)}
	if err := b.dial(); err != nil {
		return nil, err
	}
	defer b.link.close()
	if _, err := b.probe(ctx); err != nil {
		return nil, err
	}
	topics, err := b.topics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", b.unreachable(err))
	}
	for _, topic := range topics {
		found, err := b.verifyTopic(ctx, topic)
		if bad = append(bad, found...); err != nil {
			return bad, fmt.Errorf("verify %s: %w", topic, b.unreachable(err))
		}
		if len(bad) >= badMax {
			break
		}
	}
	return bad, nil
}

// topics lists the topics that have a stream or an index of ids.
func (b *Bus) topics(ctx context.Context) (topics []event.Topic, err error) {
	client := b.link.connected()
	seen := make(map[event.Topic]bool)
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(b.opt.Prefix)
	for _, kind := range []string{":s:", ":i:"} {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			entry, err := client.Do(ctx, client.B().Scan().Cursor(cursor).Match(literal+kind+"*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, err
			}
			cursor = entry.Cursor
			for _, key := range entry.Elements {
				topic := event.Topic(strings.TrimPrefix(key, b.opt.Prefix+kind))
				if !seen[topic] {
					seen[topic] = true
					topics = append(topics, topic)
				}
			}
		}
	}
	return topics, nil
}

// verifyTopic reads a topic chunk by chunk.
func (b *Bus) verifyTopic(ctx context.Context, topic event.Topic) (bad []string, err error) {
	if _, output := topic.OutputRequest(); output {
		return b.verifyOutput(ctx, topic)
	}
	k := b.link.keys(topic)
	for from := "-"; len(bad) < badMax; {
		reply, err := b.link.run(ctx, verifyScript, []string{k.stream, k.ids}, []string{from, fmt.Sprint(chunkEntries)}).ToArray()
		if err != nil {
			return bad, err
		}
		if len(reply) != 4 {
			return bad, errors.New("redis answered something else than was asked")
		}
		entries, err := reply[0].AsXRange()
		if err != nil {
			return bad, err
		}
		indexed, err := reply[1].ToArray()
		if err != nil || len(indexed) != len(entries) {
			return bad, errors.Join(err, errors.New("redis answered for another number of entries"))
		}
		if from == "-" {
			there, err := reply[2].AsInt64()
			ids, err2 := reply[3].AsInt64()
			if err := errors.Join(err, err2); err != nil {
				return bad, err
			}
			if there != ids {
				bad = append(bad, fmt.Sprintf("The topic %s in Redis has %d entries and knows of %d.", topic, there, ids))
			}
		}
		for i, entry := range entries {
			at, _ := indexed[i].ToString() // "" if the index has no position
			if _, err := decodeEntries(topic, []rueidis.XRangeEntry{entry}); err != nil || at != entry.ID {
				bad = append(bad, fmt.Sprintf("The entry %s of the topic %s in Redis is damaged.", entry.ID, topic))
			}
		}
		if len(entries) < chunkEntries {
			return bad, nil
		}
		from = "(" + entries[len(entries)-1].ID
	}
	return bad, nil
}

// verifyOutput reads an output chunk by chunk. An output has no index of ids, but its
// positions have no gaps, so a missing entry is detected.
func (b *Bus) verifyOutput(ctx context.Context, topic event.Topic) (bad []string, err error) {
	client, k := b.link.connected(), b.link.keys(topic)
	trimmed, _, err := oneEntryID(client.Do(ctx, client.B().Hmget().Key(k.meta).Field("t").Build()))
	if err != nil {
		return nil, err
	}
	end := int64(0) // the newest position, if the user may run XINFO
	if info, err := client.Do(ctx, client.B().XinfoStream().Key(k.stream).Build()).AsMap(); err == nil {
		id := info["last-generated-id"]
		if text, err := id.ToString(); err == nil {
			end, _ = parseEntryID(text)
		}
	}
	last := trimmed
	missing := func(before int64) {
		from := max(last, trimmed) // readers get ErrTrimmed for entries up to trimmed
		if n := before&countMax - from&countMax - 1; n > 0 {
			bad = append(bad, fmt.Sprintf("The topic %s in Redis lacks %d entries behind %s.", topic, n, entryID(from)))
		}
	}
	for from, more := "-", true; more && len(bad) < badMax; {
		entries, err := client.Do(ctx, client.B().Xrange().Key(k.stream).Start(from).End("+").Count(chunkEntries).Build()).AsXRange()
		if rueidis.IsRedisNil(err) || err == nil && len(entries) == 0 {
			break
		}
		if err != nil {
			return bad, err
		}
		for _, entry := range entries {
			if _, err := decodeEntries(topic, []rueidis.XRangeEntry{entry}); err != nil {
				bad = append(bad, fmt.Sprintf("The entry %s of the topic %s in Redis is damaged.", entry.ID, topic))
			}
			if seq, ok := parseEntryID(entry.ID); ok {
				missing(seq)
				last = seq
			}
		}
		more = len(entries) == chunkEntries
		from = "(" + entries[len(entries)-1].ID
	}
	if last > trimmed { // otherwise the stream has expired
		missing(end + 1)
	}
	return bad, nil
}

// VerifyRows reads the outgoing rows, both unsent and recently sent ones, and reports
// the damaged ones.
func VerifyRows(ctx context.Context, database *db.DB) (bad []string, err error) {
	err = database.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query("SELECT row, topic, id, head, data, sum FROM redis_outgoing ORDER BY row")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() && len(bad) < badMax {
			var row, sum int64
			var topic event.Topic
			var id string
			var head, data []byte
			if err := rows.Scan(&row, &topic, &id, &head, &data, &sum); err != nil {
				return err
			}
			if sum != sumEvent(topic, id, head, data) {
				bad = append(bad, db.DamagedRow("redis_outgoing", fmt.Sprint(row)).Error())
			}
		}
		return rows.Err()
	})
	if err != nil {
		return bad, fmt.Errorf("verify outgoing rows: %w", err)
	}
	return bad, nil
}
