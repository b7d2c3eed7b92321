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

// Bus is the engine that stores events in Redis. It implements [bus.Bus].
type Bus struct {
	*delivery.Engine
	db     *db.DB
	opt    Options
	log    *slog.Logger
	now    func() time.Time
	link   *link
	stream *stream

	// unsent counts committed rows that were not sent yet.
	unsent  atomic.Int64
	recent  recent
	idIndex idIndex
	queue   chan *publishRequest
	wake    chan struct{} // one slot: one pending wake-up is enough
	// wakeThreshold is the number of queued requests that wakes the forwarder.
	wakeThreshold atomic.Int64

	// settling is held while one batch is announced. It guards newest, the newest
	// announced position of each topic other than outputs.
	settling sync.Mutex
	newest   map[event.Topic]int64

	// handled is the set of topics with a group: their events become rows. The map
	// is never changed; a holder of mu replaces it.
	mu      sync.Mutex
	handled atomic.Pointer[map[event.Topic]bool]

	// These belong to the forwarder, before it to Open.
	epoch int64                 // the newest epoch that was claimed
	batch int64                 // the newest batch number that was used
	steps int64                 // the steps of the current recovery
	held  map[event.Topic]int64 // the newest position that Redis had when a loss was noticed
	whole bool                  // the prefix is claimed and lost events are restored
	up    bool                  // Redis is usable
	// unanswered holds the items that were in flight when the connection failed.
	// Redis may or may not have them.
	unanswered  []*item
	waiting     []*publishRequest // taken from queue, but not sent yet
	inFlight    []*inFlightBatch  // sent but not acknowledged, oldest first
	concurrency int               // estimated number of requests that wait or are in flight
	began       bool              // the rows that an earlier process may have sent were loaded into unanswered
	sizer       batchSizer
	moreRows    bool // the database may have more rows to send

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
	closed atomic.Bool // the forwarder no longer reads queue
}

var _ bus.Bus = (*Bus)(nil)

// Open creates the engine on an open database that has [Migrations], and installs
// it as the database's publisher. It fails with fault.Invalid if the server is
// unsuitable. If the server is unavailable, the engine reconnects in the background.
// But if this database never used Redis, the address may be wrong, so Open fails
// with fault.Unavailable.
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

// begin connects to Redis and sends the pending rows.
func (b *Bus) begin(ctx context.Context) error {
	if err := b.ensureUsable(ctx); err != nil {
		return err
	}
	return b.sendPending()
}

// startTries is the number of attempts at startup before a timeout ends the
// program. A timeout can also mean that this machine was suspended.
const startTries = 3

// retryTimeout calls try again while the error is a timeout, up to startTries
// attempts in total.
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

// load reads the state that earlier processes left in the database. used reports
// whether any of them used Redis.
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
		if err := q.QueryRow("SELECT coalesce(max(batch), 0) FROM redis_outgoing WHERE pos > 0").Scan(&b.batch); err != nil {
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

// Publish makes the events durable, all or none, in order. It returns once Redis
// has them. If a group handles one of the topics, Publish writes the events to the
// database first. While Redis is unavailable, it writes them to the database and
// returns without waiting.
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

// flush waits until Redis has all rows that were committed before the call. It
// returns at once if Redis is unavailable.
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

// markHandled records that a group handles a topic.
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

// Declare creates the group if it does not exist, so that it gets every event that
// is published later.
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

// Unsent returns the number of events that wait in the database to be sent to Redis.
func (b *Bus) Unsent() int64 { return b.unsent.Load() }

// Healthy checks Redis. It returns an error if Redis does not accept events, if its
// settings can lose them, or if a group does not handle its events.
func (b *Bus) Healthy(ctx context.Context) error {
	if err := b.link.ask(ctx); err != nil {
		return err
	}
	if err := b.takesWrites(ctx); err != nil {
		return err
	}
	return b.Trouble()
}

// Close stops all goroutines of the bus and waits for them. Unsent events stay in
// the database until the next start.
func (b *Bus) Close() error {
	b.cancel()
	b.Stop()
	b.work.Wait()
	b.closed.Store(true)
	b.failQueued(errClosed)
	b.link.close()
	return nil
}
