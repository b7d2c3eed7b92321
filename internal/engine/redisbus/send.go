package redisbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
)

// topicBatch is the part of a batch that belongs to one topic.
type topicBatch struct {
	topic event.Topic
	items []*item
	// output is the state of an output, nil for other topics. fresh holds the events
	// that the output may not have yet.
	output *output
	fresh  []*item
}

// script is a batch in the form that appendScript expects.
type script struct {
	field         string
	least, number int64
	// careful is set if Redis may already have some of the events.
	careful bool
	// single and several are outputs that have a stream in Redis and get one event, or
	// more than one. others are outputs without a stream; in a careful batch, all
	// outputs. indexed are the other topics. refreshed are the outputs whose expiry is
	// extended.
	single, several, others, indexed, refreshed []*topicBatch
}

// staleTries is the maximum number of attempts to send a batch when the state of its
// outputs is stale. Between attempts, the outputs are read from Redis.
const staleTries = 3

// send appends items as the batch with the given number and sets the position of each
// item. Redis must have the batch with the number least. careful means that Redis may
// already have some of the items, at their positions.
func (b *Bus) send(ctx context.Context, items []*item, least, number int64, careful bool) error {
	for try := 1; ; try++ {
		s, err := b.buildScript(ctx, items, careful, try > 1)
		if err != nil {
			return err
		}
		s.field, s.least, s.number = batches, least, number
		if err = b.applyReply(s, b.append(ctx, s)); !errors.Is(err, errStale) {
			return err
		}
		b.clearPositions(items)
		if try == staleTries {
			return err
		}
	}
}

// buildScript groups a batch by topic and assigns the positions of output events. It
// keeps the order within a topic, and omits events that an output already has. again
// means that the database's record of outputs is not enough, so unknown outputs are
// read from Redis. The same holds for a careful batch: an earlier process may have sent
// it and been killed before it recorded the outputs.
//
// It returns errOutputUnread if an output must be read while batches are in flight.
func (b *Bus) buildScript(ctx context.Context, items []*item, careful, again bool) (s script, err error) {
	s.careful = careful
	outputs, err := b.groupByTopic(ctx, items, &s, again || careful)
	if err != nil {
		return s, err
	}
	now := b.now()
	for _, p := range outputs {
		p.fresh = b.idIndex.assign(p.output, p.items, b.epoch, now)
		switch {
		case len(p.fresh) == 0:
			continue
		case careful || !p.output.exists:
			s.others = append(s.others, p)
			continue
		case len(p.fresh) == 1:
			s.single = append(s.single, p)
		default:
			s.several = append(s.several, p)
		}
		if now.Sub(p.output.refreshedAt) >= appendRefresh {
			s.refreshed = append(s.refreshed, p)
		}
	}
	b.idIndex.evict()
	return s, nil
}

// groupByTopic groups a batch by topic. It returns the outputs and adds the other
// topics to s. For sure, see [Bus.output].
func (b *Bus) groupByTopic(ctx context.Context, items []*item, s *script, sure bool) (outputs []*topicBatch, err error) {
	defer func() {
		for _, p := range outputs {
			p.output.topicBatch = nil
		}
	}()
	var p *topicBatch
	for i, it := range items {
		if p == nil || p.topic != it.topic {
			o, err := b.output(ctx, it.topic, sure)
			if err != nil {
				return outputs, err
			}
			var known bool
			if p, known = b.topicBatchOf(o, s.indexed, it.topic); !known {
				p.items = items[i : i : i+1] // no allocation if the topic has one event, as is common
				if o != nil {
					outputs = append(outputs, p)
				} else {
					s.indexed = append(s.indexed, p)
				}
			}
		}
		p.items = append(p.items, it)
		it.output = p.output
	}
	return outputs, nil
}

// topicBatchOf returns the topicBatch of a topic in the current batch, or a new one.
func (b *Bus) topicBatchOf(o *output, indexed []*topicBatch, topic event.Topic) (p *topicBatch, known bool) {
	if o == nil {
		for _, p := range indexed { // a batch has only a few such topics
			if p.topic == topic {
				return p, true
			}
		}
		return &topicBatch{topic: topic}, false
	}
	if known = o.topicBatch != nil; !known {
		o.topicBatch = &topicBatch{topic: topic, output: o}
	}
	return o.topicBatch, known
}

// clearPositions clears the positions of output events and forgets the state of the
// outputs.
func (b *Bus) clearPositions(items []*item) {
	for _, it := range items {
		if it.output != nil {
			b.idIndex.forget(it.topic)
			it.pos = 0
		}
	}
}

// applyReply applies the reply of the append script to the items and outputs.
func (b *Bus) applyReply(s script, a scriptReply) error {
	if a.err != nil {
		return b.refusedBatch(a.err)
	}
	if a.leftOut > 0 {
		return errStale
	}
	reply, err := a.indexed, error(nil)
	for _, p := range s.indexed {
		if reply, err = p.readPositions(b.epoch, reply); err != nil {
			return fmt.Errorf("append events to %s: %w", p.topic, err)
		}
	}
	now := b.now()
	for _, p := range s.refreshed {
		p.output.refreshedAt = now
	}
	for _, p := range s.others {
		p.output.exists, p.output.lost, p.output.refreshedAt = true, false, now
	}
	return nil
}

// resend runs the next step of a recovery: it appends items at their old positions. It
// returns the number of items that Redis could not take back.
func (b *Bus) resend(ctx context.Context, items []*item) (leftOut int64, err error) {
	s := script{field: restoring, least: b.steps, number: b.steps + 1, careful: true}
	byTopic := make(map[event.Topic]*topicBatch)
	for _, it := range items {
		p := byTopic[it.topic]
		if p == nil {
			p = &topicBatch{topic: it.topic}
			byTopic[it.topic] = p
			if _, output := it.topic.OutputRequest(); output {
				s.others = append(s.others, p)
			} else {
				s.indexed = append(s.indexed, p)
			}
		}
		p.items = append(p.items, it)
		p.fresh = p.items
	}
	a := b.append(ctx, s)
	if a.err != nil {
		return 0, b.refusedBatch(a.err)
	}
	b.steps++
	return a.leftOut, nil
}

// scriptReply is the reply of the append script: the number of events that it left out,
// and the positions of events in indexed topics.
type scriptReply struct {
	leftOut int64
	indexed []rueidis.RedisMessage
	err     error
}

// append runs the append script and waits for the reply.
func (b *Bus) append(ctx context.Context, s script) scriptReply {
	keys, args, size := b.arguments(s)
	return b.exchange(ctx, keys, args, size)
}

// exchange runs the append script. size is the number of bytes of its events; the
// batch sizer uses it.
func (b *Bus) exchange(ctx context.Context, keys, args []string, size int) (a scriptReply) {
	began := time.Now()
	message, err := b.link.run(ctx, appendScript, keys, args).ToMessage()
	b.sizer.observe(time.Since(began), b.link.within, size > b.sizer.limit(chunkBytes)/2, err)
	if a.err = err; err != nil {
		return a
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) == 0 {
		a.err = errors.Join(errBadReply, err)
		return a
	}
	if a.leftOut, err = reply[0].AsInt64(); err != nil {
		a.err = errors.Join(errBadReply, err)
	}
	a.indexed = reply[1:]
	return a
}

// refusedBatch converts an error of the append script.
func (b *Bus) refusedBatch(err error) error {
	if rest, ok := refused(err, refusedEpoch); ok {
		if epoch, err := strconv.ParseInt(rest, 10, 64); err == nil && epoch > b.epoch {
			return errReplaced(b.opt.Prefix)
		}
		return errNotWhole
	}
	if _, ok := refused(err, refusedLost); ok {
		return errNotWhole
	}
	if _, ok := refused(err, refusedStale); ok {
		return errStale
	}
	if errors.Is(err, errBadReply) {
		return err
	}
	return b.outage(err)
}

// arguments returns the keys and arguments of the append script for a batch, and the
// size of its events in bytes.
func (b *Bus) arguments(s script) (keys, args []string, size int) {
	count := 0
	for _, topics := range [][]*topicBatch{s.single, s.several, s.others, s.indexed} {
		for _, p := range topics {
			count += len(p.items)
			for _, it := range p.items {
				size += it.size()
			}
		}
	}
	keys = make([]string, 0, 2+len(s.single)+len(s.several)+2*len(s.others)+3*len(s.indexed)+len(s.refreshed))
	args = make([]string, 0, 11+2*(len(s.several)+len(s.others)+len(s.indexed))+3*count)
	keys = append(keys, b.link.claim, b.link.prefix+":topics")
	args = append(args, strconv.FormatInt(b.epoch, 10), s.field, strconv.FormatInt(s.least, 10), strconv.FormatInt(s.number, 10),
		strconv.Itoa(len(s.single)), strconv.Itoa(len(s.several)), strconv.Itoa(len(s.others)), strconv.Itoa(len(s.refreshed)),
		boolArg(s.careful), milliseconds(b.opt.OutputAge+appendRefresh), milliseconds(b.opt.OutputAge+delivery.TombstoneAge))
	for _, p := range s.single {
		it := p.fresh[0]
		keys = append(keys, p.output.stream)
		args = append(args, entryID(it.pos), it.id, it.entry)
	}
	for _, p := range s.several {
		keys = append(keys, p.output.stream)
		args = append(args, entryID(p.fresh[0].pos), strconv.Itoa(len(p.fresh)))
		for _, it := range p.fresh {
			args = append(args, it.id, it.entry)
		}
	}
	for _, p := range s.others {
		keys = append(keys, b.link.keys(p.topic).stream)
		before := ""
		if s.careful || p.output.lost {
			before = entryID(p.fresh[0].pos - 1)
		}
		args = append(args, before, strconv.Itoa(len(p.fresh)))
		for _, it := range p.fresh {
			args = append(args, entryID(it.pos), it.id, it.entry)
		}
	}
	for _, p := range s.others {
		keys = append(keys, b.link.keys(p.topic).meta)
	}
	for _, p := range s.refreshed {
		keys = append(keys, p.output.stream)
	}
	for _, p := range s.indexed {
		k := b.link.keys(p.topic)
		keys = append(keys, k.stream, k.ids, k.meta)
		args = append(args, string(p.topic), strconv.Itoa(len(p.items)))
		for _, it := range p.items {
			args = append(args, it.id)
		}
		for _, it := range p.items {
			args = append(args, it.entry)
		}
		if s.field != restoring {
			continue
		}
		for _, it := range p.items {
			args = append(args, entryID(it.pos))
		}
	}
	return keys, args, size
}

// boolArg formats a boolean for the append script.
func boolArg(is bool) string {
	if is {
		return "1"
	}
	return ""
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// readPositions reads the positions of the events from the script's reply, and returns
// the rest of the reply.
func (p *topicBatch) readPositions(epoch int64, reply []rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	if len(reply) < 2 {
		return nil, errBadReply
	}
	n, err := reply[0].AsInt64()
	exceptions, err2 := reply[1].AsInt64()
	reply = reply[2:]
	if err := errors.Join(err, err2); err != nil || exceptions < 0 || exceptions > int64(len(p.items)) || int64(len(reply)) < 2*exceptions {
		return nil, errors.Join(errBadReply, err)
	}
	next := 0
	for ; exceptions > 0; exceptions-- {
		i, err := reply[0].AsInt64()
		text, err2 := reply[1].ToString()
		if err := errors.Join(err, err2); err != nil || i < int64(next) || i >= int64(len(p.items)) {
			return nil, errors.Join(errBadReply, err)
		}
		n = assignPositions(p.items[next:i], epoch, n)
		seq, ok := parseEntryID(text)
		if !ok {
			return nil, fmt.Errorf("redis answered %q for the event %q", brief(text), p.items[i].id)
		}
		p.items[i].pos = seq
		next, reply = int(i)+1, reply[2:]
	}
	assignPositions(p.items[next:], epoch, n)
	return reply, nil
}

// assignPositions assigns consecutive positions after the n-th, and returns the last
// count.
func assignPositions(items []*item, epoch, n int64) int64 {
	for _, it := range items {
		n++
		it.pos = makePosition(epoch, n)
	}
	return n
}

// The fields of the claim that count batches and recovery steps.
const (
	batches   = "batch"
	restoring = "step"
)

// errOutputUnread means that the state of an output must be read from Redis first.
var errOutputUnread = errors.New("an output has to be read")

// errStale means that the state of an output was stale: its stream exists, or does not,
// contrary to what this process expected. Nothing was appended.
var errStale = errors.New("redis has other outputs than were expected")

var errBadReply = errors.New("redis answered for other events than were sent")
