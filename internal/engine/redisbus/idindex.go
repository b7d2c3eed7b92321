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
	// idIndexMax bounds the ids that the ledger remembers, some 50 bytes each. An output
	// that is forgotten for them is read again when it gets its next event.
	idIndexMax = 1 << 20
	// idIndexIdle is how long an output is remembered that gets no event. One whose
	// request runs gets one every 30 seconds.
	idIndexIdle = time.Minute
)

// idIndex is what this process knows of the outputs that it publishes to. Nobody else
// publishes to them, so it gives out their places and knows the ids that they have:
// Redis need not be asked, nor keep an index of them. An output that is not in the
// ledger and may be in Redis is read once, before its next event is sent.
type idIndex struct {
	mu      sync.Mutex
	outputs map[event.Topic]*output
	ids     int // of all outputs
	// most is the largest count that a place had which was given out. An output that is
	// gone, and of which nothing is known, goes on behind it: no place is given out twice.
	maxCount int64
}

// output is what is known of one.
type output struct {
	topic  event.Topic
	stream string // its key
	// last is the newest place that was given out, or 0.
	last int64
	// there says that Redis has a stream of it, gone that it had one, which is gone.
	exists, lost        bool
	usedAt, refreshedAt time.Time // its last event, and when its expiry was put off
	positions           map[hashedID]int64
	noted               bool // the database knows of it

	// topicBatch is what the batch that is being sorted has for it.
	topicBatch *topicBatch
}

// hashedID stands for an id. Two of its size are never the same by chance.
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

// put remembers an output with the ids that it has.
func (l *idIndex) put(o *output) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(o.topic)
	l.outputs[o.topic] = o
	l.ids += len(o.positions)
}

// shrink forgets outputs when there are too many ids, those first that got no event for the
// longest time. One alone may have more: it is read in full or not at all.
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

// makePosition gives events the next places of their output in an epoch, and returns those that
// the output may not have: one whose id it has gets the place of that.
func (l *idIndex) assign(o *output, items []*item, epoch int64, now time.Time) []*item {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.usedAt = now
	fresh, some := items, false
	for i, it := range items {
		pos, known := o.positions[it.hash]
		switch {
		case it.pos != 0: // it was sent before, and what became of it is not known
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

// forget forgets an output: what is known of it is wrong, or not used any more.
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

// forgetIdle forgets the outputs that get no more events.
func (l *idIndex) forgetIdle(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, o := range l.outputs {
		if now.Sub(o.usedAt) > idIndexIdle {
			l.forgetLocked(topic)
		}
	}
}

// clear forgets all outputs, when Redis may have lost events of any of them.
func (l *idIndex) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.outputs)
	l.ids = 0
}

// output returns what is known of an output, or nil for another topic. An output of which
// nothing is known, and that the database has not noted, is taken for a new one; the
// script refuses it when it is not, unless the batch is careful. sure says that Redis is to
// be asked whatever the database has noted.
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

// learn reads the ids and places of an output from Redis, which must have all that it
// acknowledged: where something is missing, the next place is one that was given out.
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
