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
	// end is how far each topic was walked; gone is the last place that is
	// missing, and count how many are.
	end, lastMissing, count map[event.Topic]int64
}

// pass walks on to a place that is given back, or is behind everything.
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

// expectHoles reads how far Redis has the topics of which we know more, when the
// newest batch that it has is not the newest that it acknowledged. What it has from
// a restoration that did not come to its end does not count.
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

// tellGone notes what is missing, so that who reads on from before it is told
// ([bus.ErrTrimmed]). Of a topic that Redis lost as a whole its next event says so.
func (b *Bus) recordGaps(ctx context.Context, h *gapFinder) error {
	for topic, newest := range b.newest {
		h.advance(topic, newest+1)
		if h.count[topic] == 0 {
			continue
		}
		b.log.Error("redis lost events that are not kept any more; they were handled, and who reads on from before them is told",
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
