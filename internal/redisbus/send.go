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
}

// portions sorts a batch by topic. The order within a topic stays.
func portions(items []*item) []*portion {
	var out []*portion
	var p *portion
	byTopic := make(map[event.Topic]*portion)
	for _, it := range items {
		if p == nil || p.topic != it.topic {
			if p = byTopic[it.topic]; p == nil {
				p = &portion{topic: it.topic}
				byTopic[p.topic] = p
				out = append(out, p)
			}
		}
		p.items = append(p.items, it)
	}
	return out
}

// send appends items as the batch with a number, and gives each its place. Redis
// must have the batch with the number least.
func (b *Bus) send(ctx context.Context, items []*item, least, number int64) error {
	topics := portions(items)
	answer, err := b.append(ctx, topics, batches, least, number)
	if err != nil {
		return err
	}
	reply, err := answer.ToArray()
	if err != nil {
		return errors.Join(errAnswer, err)
	}
	for _, p := range topics {
		if reply, err = p.placed(b.epoch, reply); err != nil {
			return fmt.Errorf("append events to %s: %w", p.topic, err)
		}
	}
	return nil
}

// resend is the next step of a restoration: it gives items back to their places,
// and returns for how many that cannot be.
func (b *Bus) resend(ctx context.Context, items []*item) (leftOut int64, err error) {
	answer, err := b.append(ctx, portions(items), restoring, b.steps, b.steps+1)
	if err != nil {
		return 0, err
	}
	b.steps++
	if leftOut, err = answer.AsInt64(); err != nil {
		return 0, errors.Join(errAnswer, err)
	}
	return leftOut, nil
}

// append has the script append what is new, when field is batches, or what is to
// be restored. Redis must have what has the number least there, and then has
// number.
func (b *Bus) append(ctx context.Context, topics []*portion, field string, least, number int64) (rueidis.RedisMessage, error) {
	count, size := 0, 0
	for _, p := range topics {
		count += len(p.items)
		for _, it := range p.items {
			size += it.size()
		}
	}
	keys := make([]string, 0, 2+3*len(topics))
	keys = append(keys, b.link.claim, b.link.prefix+":topics")
	args := make([]string, 0, 5+4*len(topics)+3*count)
	args = append(args, strconv.FormatInt(b.epoch, 10), field, strconv.FormatInt(least, 10), strconv.FormatInt(number, 10), b.timestamp())
	keep := strconv.FormatInt((b.opt.OutputAge + delivery.TombstoneAge).Milliseconds(), 10)
	for _, p := range topics {
		k := b.link.keys(p.topic)
		keys = append(keys, k.stream, k.ids, k.meta)
		age := int64(0)
		if _, output := p.topic.OutputRequest(); output {
			age = (b.opt.OutputAge + appendRefresh).Milliseconds()
		}
		args = append(args, string(p.topic), strconv.FormatInt(age, 10), keep, strconv.Itoa(len(p.items)))
		for _, it := range p.items {
			args = append(args, it.id)
		}
		for _, it := range p.items {
			args = append(args, it.entry)
		}
		if field != restoring {
			continue
		}
		for _, it := range p.items {
			args = append(args, entryID(it.pos))
		}
	}
	began := time.Now()
	answer, err := b.link.run(ctx, appendScript, keys, args).ToMessage()
	b.pace.took(time.Since(began), b.link.within, size > b.pace.of(chunkBytes)/2, err)
	if err != nil {
		if rest, ok := refused(err, refusedEpoch); ok {
			if epoch, err := strconv.ParseInt(rest, 10, 64); err == nil && epoch > b.epoch {
				return answer, errReplaced(b.opt.Prefix)
			}
			return answer, errNotWhole
		}
		if _, ok := refused(err, refusedLost); ok {
			return answer, errNotWhole
		}
		return answer, b.outage(err)
	}
	return answer, nil
}

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

var errAnswer = errors.New("redis answered for other events than were sent")
