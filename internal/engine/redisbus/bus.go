package redisbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
)

// Bus is the engine. It satisfies [bus.Bus].
type Bus struct {
	*delivery.Engine
	db     *db.DB
	opt    Options
	log    *slog.Logger
	now    func() time.Time
	link   *link
	stream *stream

	// unsent counts the committed rows that wait to be sent.
	unsent  atomic.Int64
	recent  recent
	idIndex idIndex
	queue   chan *publishRequest
	wake    chan struct{} // one slot: a wake-up that is due is enough
	// enough is how many parcels have to be in hands before the forwarder looks.
	wakeThreshold atomic.Int64

	// settling is held while everybody is told of a batch. It guards newest, the
	// newest place of each topic but the outputs that was told of.
	settling sync.Mutex
	newest   map[event.Topic]int64

	// handled are the topics with a group: what is published there becomes a
	// row. The map is replaced, not changed, by who has mu.
	mu      sync.Mutex
	handled atomic.Pointer[map[event.Topic]bool]

	// These belong to the forwarder, before it to Open.
	epoch int64                 // the newest that was claimed
	batch int64                 // the newest number that was used
	steps int64                 // of the restoration
	held  map[event.Topic]int64 // what Redis had when a loss was noticed
	whole bool                  // claimed, and what was missing is restored
	up    bool                  // Redis can be used
	// unanswered is what was on its way last when it is not known whether Redis has
	// it.
	unanswered  []*item
	waiting     []*publishRequest // what was taken from hands and is not on its way
	inFlight    []*inFlightBatch  // what is on its way, oldest first
	concurrency int               // how many publish requests wait and are on their way at a time
	began       bool              // what an earlier process may have sent is in unanswered, or is told
	sizer       batchSizer
	moreRows    bool // more rows may wait than were read

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	closed atomic.Bool // nobody takes what is handed over any more
}

var _ bus.Bus = (*Bus)(nil)

// Open makes the engine on an open database that has [Migrations], and installs
// it as the database's publisher. It fails (fault.Invalid) when the server must
// not be used. A server that is away is waited for in the background, unless
// this database never used one: then the address may be wrong, and Open fails
// (fault.Unavailable).
func Open(ctx context.Context, database *db.DB, opt Options) (*Bus, error) {
	opt = opt.withDefaults()
	if _, err := opt.client(); err != nil {
		return nil, err
	}
	b := &Bus{
		db: database, opt: opt, log: opt.Logger, now: opt.Now, link: newLink(opt), idIndex: idIndex{outputs: make(map[event.Topic]*output)},
		queue: make(chan *publishRequest, queueMax), wake: make(chan struct{}, 1), moreRows: true,
		newest: make(map[event.Topic]int64), held: make(map[event.Topic]int64),
	}
	b.stream = &stream{link: b.link, db: database}
	var err error
	if b.Engine, err = delivery.New(database, b.stream, opt.Options); err != nil {
		return nil, err
	}
	used, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	err = b.begin(ctx)
	if !used {
		err = retryTimeout(ctx, err, func() error {
			b.work.Go(b.link.drop())
			return b.begin(ctx)
		})
	}
	switch {
	case err == nil:
		b.markUp()
	case isRefusal(err) || !used:
		b.cancel()
		b.link.close()
		b.work.Wait()
		return nil, err
	default:
		b.markDown(err)
	}
	database.SetPublisher(b.write)
	b.work.Go(b.forward)
	b.TrimPeriodically(b.Trim)
	return b, nil
}

// begin makes Redis usable and sends what waits.
func (b *Bus) begin(ctx context.Context) error {
	if err := b.ensureUsable(ctx); err != nil {
		return err
	}
	return b.sendPending()
}

// startTries is how often a start asks for an answer without which the program
// ends. One that did not come in time may have: this machine stood still.
const startTries = 3

// retryTimeout repeats what failed because no answer came in time.
func retryTimeout(ctx context.Context, err error, try func() error) error {
	for n := 1; n < startTries && errors.Is(err, context.DeadlineExceeded); n++ {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(2 * reconnectEvery):
			err = try()
		}
	}
	return err
}

// load reads what an earlier process left, and whether one used Redis at all.
func (b *Bus) load(ctx context.Context) (used bool, err error) {
	err = b.db.Read(ctx, func(q db.Queryer) error {
		var epoch, unsent int64
		if err := q.QueryRow("SELECT epoch FROM redis_state").Scan(&epoch); err != nil {
			return err
		}
		used = epoch > 0
		if err := q.QueryRow("SELECT count(*) FROM redis_outgoing WHERE pos = 0").Scan(&unsent); err != nil {
			return err
		}
		b.unsent.Store(unsent)
		if err := q.QueryRow("SELECT ifnull(max(batch), 0) FROM redis_outgoing WHERE pos > 0").Scan(&b.batch); err != nil {
			return err
		}
		rows, err := q.Query("SELECT DISTINCT t.name FROM bus_groups g JOIN bus_topics t ON t.id = g.topic")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var topic event.Topic
			if err := rows.Scan(&topic); err != nil {
				return err
			}
			b.markHandled(topic)
		}
		return rows.Err()
	})
	if err != nil {
		return false, fmt.Errorf("read outgoing state: %w", err)
	}
	return used, nil
}

// Publish makes the events durable, all or none, in order. It returns when
// Redis has them. What a group handles is durable in the database first, and so
// is everything while Redis is away; then Publish returns without waiting.
func (b *Bus) Publish(ctx context.Context, events ...event.Event) error {
	if len(events) == 0 {
		return nil
	}
	if !slices.ContainsFunc(events, func(e event.Event) bool { return b.isHandled(e.Topic) }) {
		p := publishRequests.Get().(*publishRequest)
		now := b.now().UnixMilli()
		for _, e := range events {
			if err := e.Validate(); err != nil {
				return err
			}
			p.items = append(p.items, newItem(e, encodeHead(e), now))
		}
		if err := b.enqueue(ctx, p); !errors.Is(err, errAway) {
			return err
		}
	}
	if err := b.db.Update(ctx, func(tx *db.Tx) error { return tx.Publish(events...) }); err != nil {
		return err
	}
	return b.flush(ctx)
}

// flush waits until Redis has what was committed before, if Redis is there.
func (b *Bus) flush(ctx context.Context) error {
	if err := b.enqueue(ctx, publishRequests.Get().(*publishRequest)); !errors.Is(err, errAway) {
		return err
	}
	return nil
}

// isHandled reports whether a group handles a topic.
func (b *Bus) isHandled(topic event.Topic) bool {
	topics := b.handled.Load()
	return topics != nil && (*topics)[topic]
}

// handle notes that a group handles a topic.
func (b *Bus) markHandled(topic event.Topic) {
	b.mu.Lock()
	defer b.mu.Unlock()
	topics := make(map[event.Topic]bool)
	if before := b.handled.Load(); before != nil {
		maps.Copy(topics, *before)
	}
	topics[topic] = true
	b.handled.Store(&topics)
}

// Declare makes the group exist, so that nothing published later is missed.
func (b *Bus) Declare(ctx context.Context, s bus.Subscription) error {
	b.markHandled(s.Topic)
	if err := b.flush(ctx); err != nil {
		return fmt.Errorf("declare group %s of %s: %w", s.Group, s.Topic, err)
	}
	return retryTimeout(ctx, b.Engine.Declare(ctx, s), func() error { return b.Engine.Declare(ctx, s) })
}

// Subscribe declares the group and handles its events until ctx ends.
func (b *Bus) Subscribe(ctx context.Context, s bus.Subscription, h bus.Handler) error {
	if err := b.Declare(ctx, s); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return b.Engine.Subscribe(ctx, s, h)
}

// Unsent is how many events wait in the database until Redis takes them.
func (b *Bus) Unsent() int64 { return b.unsent.Load() }

// Healthy asks Redis, and returns an error while events do not reach it, or would
// not, are not safe there as its settings are, or are not handled.
func (b *Bus) Healthy(ctx context.Context) error {
	if err := b.link.ask(ctx); err != nil {
		return err
	}
	if err := b.takesWrites(ctx); err != nil {
		return err
	}
	return b.Trouble()
}

// Close ends what still runs and waits for it. Events that were not sent wait
// in the database for the next start.
func (b *Bus) Close() error {
	b.cancel()
	b.Stop()
	b.work.Wait()
	b.closed.Store(true)
	b.failQueued(errClosed)
	b.link.close()
	return nil
}
