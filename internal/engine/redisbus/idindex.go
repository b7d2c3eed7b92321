package redisbus

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"lilac/internal/foundation/event"
)

const (
	// idIndexMax is the maximum number of ids in the index, about 50 bytes each. An
	// evicted output is read from Redis again when it gets its next event.
	idIndexMax = 1 << 20
	// idIndexIdle is how long an output without new events stays in the index. An output
	// whose request is running gets an event every 30 seconds.
	idIndexIdle = time.Minute
)

// idIndex holds the state of the outputs that this process publishes to. It is their
// only publisher, so it assigns their positions and knows their ids without queries or
// an index in Redis. An output that is not in the index and may be in Redis is read
// once, before its next event is sent.
type idIndex struct {
	mu      sync.Mutex
	outputs map[event.Topic]*output
	ids     int // number of ids in all outputs
	// maxCount is the largest count of any assigned position. The positions of a lost
	// output whose last position is unknown continue after it, so none is assigned twice.
	maxCount int64
}

// output is the state of one output.
type output struct {
	topic  event.Topic
	stream string // the key of its stream
	// last is the newest assigned position, or 0.
	last int64
	// exists means that Redis has its stream; lost, that Redis had one and lost it.
	exists, lost        bool
	usedAt, refreshedAt time.Time // the time of its last event, and of the last extension of its expiry
	positions           map[hashedID]int64
	noted               bool // the database has recorded it

	// topicBatch is its part of the batch that buildScript groups now, nil otherwise.
	topicBatch *topicBatch
}

// hashedID is a 128-bit hash of an event id. It saves memory; collisions are negligible.
type hashedID [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashID(id string) hashedID {
	return hashedID{maphash.String(hashSeeds[0], id), maphash.String(hashSeeds[1], id)}
}

func (l *idIndex) get(topic event.Topic) *output {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.outputs[topic]
}

// put adds or replaces an output.
func (l *idIndex) put(o *output) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(o.topic)
	l.outputs[o.topic] = o
	l.ids += len(o.positions)
}

// evict removes the least recently used outputs when there are more than idIndexMax ids.
// It always keeps the most recent one, because an output is indexed in full or not at
// all.
func (l *idIndex) evict() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids <= idIndexMax || len(l.outputs) == 1 {
		return
	}
	oldest := slices.SortedFunc(maps.Values(l.outputs), func(x, y *output) int { return x.usedAt.Compare(y.usedAt) })
	for _, o := range oldest[:len(oldest)-1] {
		if l.ids > idIndexMax/2 {
			l.forgetLocked(o.topic)
		}
	}
}

// assign assigns the next positions of an output to events, and returns the events that
// the output may not have. An event whose id the output has gets the existing position.
func (l *idIndex) assign(o *output, items []*item, epoch int64, now time.Time) []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.usedAt = now
	fresh, some := items, false
	for i, it := range items {
		pos, known := o.positions[it.hash]
		switch {
		case it.pos != 0: // it was sent before, and Redis may have it
		case known:
			it.pos = pos
			if !some {
				fresh, some = slices.Clone(items[:i]), true
			}
			continue
		case o.last == 0 && o.lost:
			it.pos = makePosition(epoch, l.maxCount+1)
		default:
			it.pos = makePosition(epoch, o.last&countMax+1)
		}
		if !known {
			l.ids++
		}
		o.positions[it.hash], o.last, l.maxCount = it.pos, max(o.last, it.pos), max(l.maxCount, it.pos&countMax)
		if some {
			fresh = append(fresh, it)
		}
	}
	return fresh
}

// forget removes an output whose state is stale.
func (l *idIndex) forget(topic event.Topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(topic)
}

func (l *idIndex) forgetLocked(topic event.Topic) {
	if o := l.outputs[topic]; o != nil {
		l.ids -= len(o.positions)
		delete(l.outputs, topic)
	}
}

// forgetIdle removes the outputs that got no events for idIndexIdle.
func (l *idIndex) forgetIdle(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, o := range l.outputs {
		if now.Sub(o.usedAt) > idIndexIdle {
			l.forgetLocked(topic)
		}
	}
}

// clear removes all outputs. It is called when Redis may have lost events of any output.
func (l *idIndex) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.outputs)
	l.ids = 0
}

// output returns the state of an output, or nil for another topic. An output that is
// neither in the index nor recorded in the database is assumed to be new. If it is not,
// the script refuses the batch, unless the batch is careful. sure makes output read
// Redis even if the database has not recorded the output.
func (b *Bus) output(ctx context.Context, topic event.Topic, sure bool) (*output, error) {
	if _, is := topic.OutputRequest(); !is {
		return nil, nil
	}
	if o := b.idIndex.get(topic); o != nil {
		return o, nil
	}
	noted, err := outputNoted(ctx, b.db, topic)
	if err != nil {
		return nil, err
	}
	o := &output{topic: topic, stream: b.link.keys(topic).stream, noted: noted, positions: make(map[hashedID]int64), usedAt: b.now()}
	if noted || sure {
		if len(b.inFlight) > 0 {
			return nil, errOutputUnread
		}
		if err := b.readOutput(ctx, o); err != nil {
			return nil, fmt.Errorf("read what %s has: %w", topic, err)
		}
	}
	b.idIndex.put(o)
	return o, nil
}

// readOutput reads the ids and positions of an output from Redis. It fails if Redis
// lacks acknowledged batches, because then a position could be assigned twice.
func (b *Bus) readOutput(ctx context.Context, o *output) error {
	epoch, least := strconv.FormatInt(b.epoch, 10), strconv.FormatInt(b.link.acked.Load(), 10)
	for from, more := "-", true; more; {
		reply, err := b.link.run(ctx, idsScript, []string{b.link.claim, o.stream}, []string{epoch, least, from, strconv.Itoa(chunkEntries)}).AsStrSlice()
		if err != nil {
			return b.refusedBatch(err)
		}
		if len(reply)%2 != 1 {
			return errBadReply
		}
		newest := reply[0]
		for i := 1; i < len(reply); i += 2 {
			seq, ok := parseEntryID(reply[i])
			if !ok {
				return foreign(o.topic, reply[i])
			}
			o.positions[hashID(reply[i+1])] = seq
			o.last, o.exists, from = seq, true, "("+reply[i]
		}
		if more = len(reply) == 1+2*chunkEntries; more || newest == "" {
			continue
		}
		seq, ok := parseEntryID(newest)
		if !ok || seq>>countBits > b.epoch {
			return foreign(o.topic, newest)
		}
		o.last, o.exists = seq, true
	}
	o.lost = !o.exists
	return nil
}
