package redisbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/delivery"
	"lilac/internal/event"
)

// portion is what one batch has for one topic.
type portion struct {
	topic event.Topic
	items []*item
	// fresh are those of an output that it may not have, output is what is known of it,
	// and refresh says whether its expiry is put off.
	fresh   []*item
	output  *output
	refresh bool
}

// portions sorts a batch by topic. The order within a topic stays.
func portions(items []*item) []*portion {
	var out []*portion
	var p *portion
	byTopic := make(map[event.Topic]*portion, len(items))
	for i, it := range items {
		if p == nil || p.topic != it.topic {
			if p = byTopic[it.topic]; p == nil {
				p = &portion{topic: it.topic, items: items[i : i : i+1]} // often it has one
				byTopic[p.topic] = p
				out = append(out, p)
			}
		}
		p.items = append(p.items, it)
	}
	return out
}

// script is a batch as the append script wants it.
type script struct {
	field         string
	least, number int64
	// careful says that Redis may have some of its events.
	careful bool
	// known are outputs of which Redis has a stream, others those of which it has none,
	// or in a careful batch all; indexed are the other topics.
	known, others, indexed []*portion
}

// staleTries is how often a batch is sent again because what was known of its outputs is
// not so: they are read from Redis in between.
const staleTries = 3

// send appends items as the batch with a number, and gives each its place. Redis
// must have the batch with the number least. careful says that it may have
// some of the items already, at the places that they have.
func (b *Bus) send(ctx context.Context, items []*item, least, number int64, careful bool) error {
	topics := portions(items)
	for try := 1; ; try++ {
		s, err := b.sort(ctx, topics, careful, try > 1)
		if err != nil {
			return err
		}
		s.field, s.least, s.number = batches, least, number
		if err = b.arrived(s, b.append(ctx, s)); !errors.Is(err, errStale) {
			return err
		}
		b.unplace(topics)
		if try == staleTries {
			return err
		}
	}
}

// sort gives the events of outputs their places, and finds out what Redis is to be told of
// each topic. What an output has already is not sent, unless it may not be there. again
// says that what the database has noted of the outputs is not enough; nor is it in a careful
// batch, which an earlier process may have sent without the time to note anything.
func (b *Bus) sort(ctx context.Context, topics []*portion, careful, again bool) (s script, err error) {
	now := b.now()
	s.careful = careful
	for _, p := range topics {
		if _, is := p.topic.OutputRequest(); !is {
			s.indexed = append(s.indexed, p)
			continue
		}
		o, err := b.output(ctx, p.topic, again || careful)
		if err != nil {
			return s, err
		}
		p.output, p.refresh = o, now.Sub(o.aged) >= appendRefresh
		p.fresh = b.ledger.place(o, p.items, b.epoch, now)
		switch {
		case len(p.fresh) == 0:
		case o.there && !careful:
			s.known = append(s.known, p)
		default:
			s.others = append(s.others, p)
		}
	}
	return s, nil
}

// unplace takes back the places of the events of outputs, and what was believed of these.
func (b *Bus) unplace(topics []*portion) {
	for _, p := range topics {
		if _, is := p.topic.OutputRequest(); !is {
			continue
		}
		b.ledger.forget(p.topic)
		for _, it := range p.items {
			it.pos = 0
		}
	}
}

// arrived notes what Redis says to a batch.
func (b *Bus) arrived(s script, a answer) error {
	if a.err != nil {
		return b.refusedBatch(a.err)
	}
	if a.leftOut > 0 {
		return errStale
	}
	reply, err := a.indexed, error(nil)
	for _, p := range s.indexed {
		if reply, err = p.placed(b.epoch, reply); err != nil {
			return fmt.Errorf("append events to %s: %w", p.topic, err)
		}
	}
	now := b.now()
	for _, p := range s.known {
		if p.refresh {
			p.output.aged = now
		}
	}
	for _, p := range s.others {
		p.output.there, p.output.gone, p.output.aged = true, false, now
	}
	return nil
}

// resend is the next step of a restoration: it gives items back to their places,
// and returns for how many that cannot be.
func (b *Bus) resend(ctx context.Context, items []*item) (leftOut int64, err error) {
	s := script{field: restoring, least: b.steps, number: b.steps + 1, careful: true}
	for _, p := range portions(items) {
		if _, is := p.topic.OutputRequest(); is {
			p.fresh = p.items
			s.others = append(s.others, p)
		} else {
			s.indexed = append(s.indexed, p)
		}
	}
	a := b.append(ctx, s)
	if a.err != nil {
		return 0, b.refusedBatch(a.err)
	}
	b.steps++
	return a.leftOut, nil
}

// answer is what the append script says: how many events were left out, and what it says
// of the topics with an index.
type answer struct {
	leftOut int64
	indexed []rueidis.RedisMessage
	err     error
}

// append runs the script.
func (b *Bus) append(ctx context.Context, s script) answer {
	keys, args, size := b.arguments(s)
	return b.exchange(ctx, keys, args, size)
}

// exchange runs the script with arguments that have events of a size.
func (b *Bus) exchange(ctx context.Context, keys, args []string, size int) (a answer) {
	began := time.Now()
	message, err := b.link.run(ctx, appendScript, keys, args).ToMessage()
	b.pace.took(time.Since(began), b.link.within, size > b.pace.of(chunkBytes)/2, err)
	if a.err = err; err != nil {
		return a
	}
	reply, err := message.ToArray()
	if err != nil || len(reply) == 0 {
		a.err = errors.Join(errAnswer, err)
		return a
	}
	if a.leftOut, err = reply[0].AsInt64(); err != nil {
		a.err = errors.Join(errAnswer, err)
	}
	a.indexed = reply[1:]
	return a
}

// refusedBatch says what it means that the append script did not do its work.
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
	if errors.Is(err, errAnswer) {
		return err
	}
	return b.outage(err)
}

// arguments writes a batch as the keys and arguments of the append script, and
// returns the size of its events.
func (b *Bus) arguments(s script) (keys, args []string, size int) {
	count := 0
	for _, topics := range [][]*portion{s.known, s.others, s.indexed} {
		for _, p := range topics {
			count += len(p.items)
			for _, it := range p.items {
				size += it.size()
			}
		}
	}
	keys = make([]string, 0, 2+len(s.known)+2*len(s.others)+3*len(s.indexed))
	args = make([]string, 0, 9+3*(len(s.known)+len(s.others)+len(s.indexed))+3*count)
	keys = append(keys, b.link.claim, b.link.prefix+":topics")
	args = append(args, strconv.FormatInt(b.epoch, 10), s.field, strconv.FormatInt(s.least, 10), strconv.FormatInt(s.number, 10),
		strconv.Itoa(len(s.known)), strconv.Itoa(len(s.others)), yes(s.careful),
		milliseconds(b.opt.OutputAge+appendRefresh), milliseconds(b.opt.OutputAge+delivery.TombstoneAge))
	for _, p := range s.known {
		keys = append(keys, p.output.stream)
		args = append(args, entryID(p.fresh[0].pos), yes(p.refresh), strconv.Itoa(len(p.fresh)))
		for _, it := range p.fresh {
			args = append(args, it.id, it.entry)
		}
	}
	for _, p := range s.others {
		keys = append(keys, b.link.keys(p.topic).stream)
		before := ""
		if s.careful || p.output.gone {
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

// yes is a truth as the script reads it.
func yes(is bool) string {
	if is {
		return "1"
	}
	return ""
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// timestamp is now as an entry says when it was appended.
func (b *Bus) timestamp() string { return strconv.FormatInt(b.now().UnixMilli(), 10) }

// placed reads where the script put the events, and returns what follows in its
// answer.
func (p *portion) placed(epoch int64, reply []rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	if len(reply) < 2 {
		return nil, errAnswer
	}
	n, err := reply[0].AsInt64()
	exceptions, err2 := reply[1].AsInt64()
	reply = reply[2:]
	if err := errors.Join(err, err2); err != nil || exceptions < 0 || exceptions > int64(len(p.items)) || int64(len(reply)) < 2*exceptions {
		return nil, errors.Join(errAnswer, err)
	}
	next := 0
	for ; exceptions > 0; exceptions-- {
		i, err := reply[0].AsInt64()
		text, err2 := reply[1].ToString()
		if err := errors.Join(err, err2); err != nil || i < int64(next) || i >= int64(len(p.items)) {
			return nil, errors.Join(errAnswer, err)
		}
		n = follow(p.items[next:i], epoch, n)
		seq, ok := parseEntryID(text)
		if !ok {
			return nil, fmt.Errorf("redis answered %q for the event %q", brief(text), p.items[i].id)
		}
		p.items[i].pos = seq
		next, reply = int(i)+1, reply[2:]
	}
	follow(p.items[next:], epoch, n)
	return reply, nil
}

// follow gives items the places after the n-th.
func follow(items []*item, epoch, n int64) int64 {
	for _, it := range items {
		n++
		it.pos = place(epoch, n)
	}
	return n
}

// The fields of the claim that count what was sent.
const (
	batches   = "batch"
	restoring = "step"
)

// errStale means that an output has a stream, or has none, other than was believed. Nothing
// was appended.
var errStale = errors.New("redis has other outputs than were expected")

var errAnswer = errors.New("redis answered for other events than were sent")
