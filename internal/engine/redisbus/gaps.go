package redisbus

import (
	"context"
	"maps"
	"strconv"

	"lilac/internal/foundation/event"
)

// gapFinder reports, during a recovery, the positions of a topic that neither Redis
// nor a row has: their events were handled more than a minute ago.
type gapFinder struct {
	// end is the position up to which each topic was checked, lastMissing its last
	// missing position, and count the number of missing positions.
	end, lastMissing, count map[event.Topic]int64
}

// advance moves on to a position that is restored, or that is after all events, and
// counts the positions in between as missing.
func (h *gapFinder) advance(topic event.Topic, pos int64) {
	end, known := h.end[topic]
	if !known {
		return
	}
	if missing := pos&countMax - end&countMax - 1; missing > 0 {
		h.lastMissing[topic] = pos - 1
		h.count[topic] += missing
	}
	h.end[topic] = max(end, pos)
}

// newGapFinder reads the newest position of each topic from Redis if Redis lost
// batches. Events that an incomplete earlier recovery restored do not count, so it keeps
// the smallest position since the loss was noticed.
func (b *Bus) newGapFinder(ctx context.Context, have int64) (*gapFinder, error) {
	ctx, cancel := context.WithTimeout(ctx, b.link.within)
	defer cancel()
	client := b.link.connected()
	if have < b.link.acked.Load() {
		for topic := range b.newest {
			last, _, err := oneEntryID(client.Do(ctx, client.B().Hmget().Key(b.link.keys(topic).meta).Field("l").Build()))
			if err != nil {
				return nil, b.unreachable(err)
			}
			if before, known := b.held[topic]; !known || last < before {
				b.held[topic] = last
			}
		}
	}
	return &gapFinder{end: maps.Clone(b.held), lastMissing: make(map[event.Topic]int64), count: make(map[event.Topic]int64)}, nil
}

// recordGaps records the gaps in Redis, so that readers that continue from before a gap
// get [bus.ErrTrimmed]. If Redis lost a whole topic, appendScript records that with the
// topic's next event.
func (b *Bus) recordGaps(ctx context.Context, h *gapFinder) error {
	for topic, newest := range b.newest {
		h.advance(topic, newest+1)
		if h.count[topic] == 0 {
			continue
		}
		b.log.Error("Redis lost events that Lilac no longer keeps. They were handled before; readers that are behind them get a gap",
			"topic", topic, "at_most", h.count[topic])
		if b.held[topic] == 0 {
			continue
		}
		err := b.link.run(ctx, goneScript, []string{b.link.claim, b.link.keys(topic).meta}, []string{
			strconv.FormatInt(b.epoch, 10), entryID(h.lastMissing[topic]), strconv.FormatInt(h.lastMissing[topic]&countMax, 10),
		}).Error()
		if err != nil {
			return b.unreachable(err)
		}
	}
	return nil
}
