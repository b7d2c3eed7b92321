package companion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// trimEvery is how often streams are trimmed to what the log still has.
	trimEvery = time.Minute
	// logEvery is the minimum time between two troubles in the log about a subject.
	logEvery = time.Minute
	// firstRetry is the wait after a failure. It doubles up to lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
	// queueBytes bounds the events that wait in memory for Redis. What is beyond it is
	// read from the log.
	queueBytes = 8 << 20
	// recordBytes is the estimated memory of a record without its data.
	recordBytes = 512
	// topicsMax bounds the topics in memory. Outputs beyond it are not mirrored until
	// others have ended.
	topicsMax = 20_000
)

// Companion mirrors the log to Redis and takes what other programs hand in there.
type Companion struct {
	opt  Options
	log  *slog.Logger
	wake chan struct{} // one slot

	mu     sync.Mutex
	topics map[event.Topic]*topic
	dirty  map[event.Topic]*topic // topics that have something to send
	bytes  int                    // in all queues
	// troubles has what is wrong, by its subject: a link, or a key.
	troubles map[string]error
	// logged has the last trouble of each subject that was logged.
	logged map[string]loggedTrouble

	handed, rejected atomic.Int64
}

// loggedTrouble is the last trouble of a subject that was logged.
type loggedTrouble struct {
	text string
	at   time.Time
	open bool // its end was not logged
}

// topic is the state of the mirror of a topic.
type topic struct {
	// queue has the events after the ones that were taken for sending, without gaps,
	// unless behind is set: then the log may have more.
	queue  []*delivery.Record
	behind bool
	last   int64 // the newest position that is known

	// These belong to the mirror.
	name   event.Topic
	output bool
	known  bool   // top and cursor are what Redis has
	top    string // the last id of the stream
	cursor int64  // everything up to here is in the stream, or cannot be
	// trimmed is the position up to which the stream was trimmed.
	trimmed int64
	// rebuilt is when the stream was last built again, and heldUntil when its next
	// attempt is due.
	rebuilt, heldUntil time.Time
}

// Stats are numbers for metrics.
type Stats struct {
	// Up reports that Redis does its work.
	Up bool
	// Lag is the number of events in the log that are not in Redis yet.
	Lag int64
	// Handed and Rejected count entries that other programs handed in since the start.
	Handed, Rejected int64
}

// New creates a companion, which does nothing before [Companion.Run]. It returns an error
// for options that cannot work.
func New(opt Options) (*Companion, error) {
	opt = opt.withDefaults()
	if _, err := opt.client(); err != nil {
		return nil, err
	}
	c := &Companion{
		opt: opt, log: opt.Logger, wake: make(chan struct{}, 1),
		topics: map[event.Topic]*topic{}, dirty: map[event.Topic]*topic{}, troubles: map[string]error{linkMirror: errNotConnected},
		logged: map[string]loggedTrouble{},
	}
	for _, name := range event.Topics() {
		c.topicLocked(name)
	}
	return c, nil
}

var errNotConnected = fault.New(fault.Unavailable, "Redis has not been reached yet.")

// Fed takes events that were committed, in the order of the log. It does not wait.
func (c *Companion) Fed(records []*delivery.Record) {
	if len(records) == 0 {
		return
	}
	c.mu.Lock()
	for _, r := range records {
		t := c.topicLocked(r.Topic)
		if t == nil {
			continue
		}
		t.last = max(t.last, r.Seq)
		c.dirty[t.name] = t
		if size := recordBytes + len(r.Data); !t.behind && c.bytes+size <= queueBytes {
			t.queue = append(t.queue, r)
			c.bytes += size
		} else {
			c.dropQueueLocked(t)
		}
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// topicLocked returns the state of a topic, or nil if there are too many.
func (c *Companion) topicLocked(name event.Topic) *topic {
	t := c.topics[name]
	if t == nil && len(c.topics) < topicsMax {
		t = &topic{name: name}
		_, t.output = name.OutputRequest()
		c.topics[name] = t
	}
	return t
}

// dropQueueLocked makes the mirror read the log.
func (c *Companion) dropQueueLocked(t *topic) {
	for _, r := range t.queue {
		c.bytes -= recordBytes + len(r.Data)
	}
	t.queue, t.behind = nil, true
}

// Run works until ctx ends. It returns nil: nothing in Redis stops the program.
func (c *Companion) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() {
		c.keep(ctx, linkMirror, (&mirror{Companion: c, limit: roundBytes, patience: patience{least: c.opt.ReplyWithin}}).run)
	})
	work.Go(func() { c.keep(ctx, linkIn, (&intake{Companion: c, patience: patience{least: c.opt.ReplyWithin}}).run) })
	work.Wait()
	return nil
}

// The names of the two connections in troubles.
const (
	linkMirror = "mirror"
	linkIn     = "in"
)

// keep runs fn with a connection until ctx ends, again and again. fn calls working when
// the connection does its work.
func (c *Companion) keep(ctx context.Context, link string, fn func(ctx context.Context, client rueidis.Client, working func()) error) {
	wait := firstRetry
	for ctx.Err() == nil {
		client, err := c.opt.dial(ctx)
		if err == nil {
			err = fn(ctx, client, func() {
				wait = firstRetry
				c.setTrouble(link, nil)
			})
			client.Close()
		}
		if ctx.Err() != nil {
			return
		}
		c.setTrouble(link, c.opt.explain(err))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, lastRetry)
	}
}

// patience bounds the time of an exchange that contains events. The bound doubles when it was too
// short, because an event cannot be divided for a slow link.
type patience struct {
	least, within time.Duration
	grown         time.Time
}

// bound returns a context for an exchange in which Redis may also be idle for a while. Call done
// after it.
func (p *patience) bound(ctx context.Context, idle time.Duration) (bounded context.Context, done func()) {
	start := time.Now()
	if start.Sub(p.grown) > patienceAge {
		p.within = p.least
	}
	ctx, cancel := context.WithTimeout(ctx, idle+p.within)
	return ctx, func() {
		cancel()
		if time.Since(start) >= idle+p.within*3/4 {
			p.within, p.grown = min(2*p.within, mostPatience*p.least), time.Now()
		}
	}
}

// setTrouble records the trouble of a subject, or with nil its end. It logs a subject's troubles
// at most once per logEvery, because a proxy may close connections, and another program may
// add entries that cannot be used, without end.
func (c *Companion) setTrouble(subject string, err error) {
	text, now := troubleText(err), time.Now()
	c.mu.Lock()
	before, last := c.troubles[subject], c.logged[subject]
	fails := err != nil && !(last.open && text == last.text) && now.Sub(last.at) >= logEvery
	works := err == nil && last.open
	if err == nil {
		delete(c.troubles, subject)
	} else {
		c.troubles[subject] = err
	}
	switch {
	case fails:
		c.logged[subject] = loggedTrouble{text: text, at: now, open: true}
	case works:
		c.logged[subject] = loggedTrouble{at: last.at}
	}
	c.mu.Unlock()
	switch {
	case err == nil && before == errNotConnected:
		c.log.Info("connected to Redis")
	case works:
		c.log.Info("Redis works again", "for", subject)
	case fails:
		c.log.Warn("Redis does not work", "for", subject, "error", err)
	}
}

// troubleText returns the text of an error without what differs at each attempt.
func troubleText(err error) string {
	if err == nil {
		return ""
	}
	if inner := errors.Unwrap(err); inner != nil {
		return strings.SplitN(err.Error(), ":", 2)[0]
	}
	return err.Error()
}

// Healthy returns what is wrong, for example which key has foreign entries, or nil.
func (c *Companion) Healthy(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var texts []string
	for _, subject := range slices.Sorted(maps.Keys(c.troubles)) {
		if text := strings.TrimSuffix(fault.ToWire(c.troubles[subject]).Message, "."); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return fault.New(fault.Unavailable, "Lilac works without Redis or with a part of it (degraded): %s.", strings.Join(texts, "; "))
}

// Stats returns the current numbers.
func (c *Companion) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Up: c.troubles[linkMirror] == nil && c.troubles[linkIn] == nil, Handed: c.handed.Load(), Rejected: c.rejected.Load()}
	for _, t := range c.dirty {
		s.Lag += max(0, t.last-t.cursor)
	}
	return s
}

// claim makes the store own the prefix, or returns an error that names its owner.
func (c *Companion) claim(ctx context.Context, client rueidis.Client) error {
	owner, err := owner(ctx, client, c.opt, true)
	if err == nil && owner != c.opt.Store {
		err = fault.New(fault.Unavailable, "the Redis prefix %q belongs to another store (%s). Choose another bus.prefix.", c.opt.Prefix, brief(owner))
	}
	return err
}

// owner returns the id of the store that owns the prefix, or "". With claims, the store
// of opt becomes the owner if there is none.
func owner(ctx context.Context, client rueidis.Client, opt Options, claims bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, opt.ReplyWithin)
	defer cancel()
	key := opt.key("owner")
	if claims {
		if err := client.Do(ctx, client.B().Setnx().Key(key).Value(opt.Store).Build()).Error(); err != nil {
			return "", fmt.Errorf("claim the prefix: %w", err)
		}
	}
	id, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the owner of the prefix: %w", err)
	}
	return id, nil
}
