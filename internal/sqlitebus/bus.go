package sqlitebus

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// Options tune an engine. The zero value works; tests shorten the times.
type Options struct {
	// Logger gets what nobody is there to be told; default: nowhere.
	Logger *slog.Logger
	// Now is the clock of leases, retries and ages; default [time.Now].
	Now func() time.Time
	// Age is how long events are kept at least; default 7 days. Ages overrides
	// it for single topics.
	Age  time.Duration
	Ages map[event.Topic]time.Duration
	// OutputAge is how long an output topic is kept after its last append;
	// default 24 h.
	OutputAge time.Duration
	// SilentAfter is how long a group without a consumer keeps events from
	// being removed; default 7 days.
	SilentAfter time.Duration
	// TrimEvery is how often the engine trims by itself; default a minute,
	// negative never.
	TrimEvery time.Duration
	// Grace is how long a handler may take to return after its context has
	// ended, before its run counts as failed; default 5 s.
	Grace time.Duration
	// TailQueue bounds what waits for one tail; default 256.
	TailQueue int
}

// Defaults of [Options].
const (
	defaultAge       = 7 * 24 * time.Hour
	defaultOutputAge = 24 * time.Hour
	defaultTrimEvery = time.Minute
	defaultGrace     = 5 * time.Second
	// defaultTailQueue absorbs a burst (a page that stalls for a second at
	// 200 events/s) and costs 2 KB only while it is used.
	defaultTailQueue = 256
)

// Bus is the engine. It satisfies [bus.Bus].
type Bus struct {
	db  *db.DB
	opt Options
	log *slog.Logger

	topics topicCache // used inside write transactions only

	mu     sync.RWMutex
	hubs   map[event.Topic]*hub
	groups map[groupName]*group
	closed bool

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup
}

var _ bus.Bus = (*Bus)(nil)

type groupName struct {
	topic event.Topic
	name  string
}

// New makes the engine on an open database that has [Migrations], and installs
// it as the database's publisher.
func New(database *db.DB, opt Options) (*Bus, error) {
	opt = opt.withDefaults()
	b := &Bus{
		db: database, opt: opt, log: opt.Logger,
		topics: make(topicCache),
		hubs:   make(map[event.Topic]*hub),
		groups: make(map[groupName]*group),
	}
	err := database.Read(context.Background(), func(q db.Queryer) error {
		var n int
		return q.QueryRow("SELECT count(*) FROM bus_groups").Scan(&n)
	})
	if err != nil {
		return nil, fmt.Errorf("look at the tables of the bus: %w", err)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	database.SetPublisher(b.append)
	if opt.TrimEvery > 0 {
		b.work.Go(b.trimRegularly)
	}
	return b, nil
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&o.Age, defaultAge},
		{&o.OutputAge, defaultOutputAge},
		{&o.SilentAfter, defaultAge},
		{&o.TrimEvery, defaultTrimEvery},
		{&o.Grace, defaultGrace},
	} {
		if *d.of == 0 {
			*d.of = d.value
		}
	}
	if o.TailQueue <= 0 {
		o.TailQueue = defaultTailQueue
	}
	return o
}

// Publish makes the events durable, all or none, in order.
func (b *Bus) Publish(ctx context.Context, events ...event.Event) error {
	if len(events) == 0 {
		return nil
	}
	return b.db.Append(ctx, func(tx *db.Tx) error { return tx.Publish(events...) })
}

// Healthy returns an error while events cannot be written, read or handled.
func (b *Bus) Healthy(ctx context.Context) error {
	if err := b.db.Healthy(); err != nil {
		return err
	}
	b.mu.RLock()
	groups := make([]*group, 0, len(b.groups))
	for _, g := range b.groups {
		groups = append(groups, g)
	}
	b.mu.RUnlock()
	for _, g := range groups {
		if err := g.trouble(); err != nil {
			return err
		}
	}
	return b.db.Read(ctx, func(q db.Queryer) error {
		var one int
		return q.QueryRow("SELECT 1").Scan(&one)
	})
}

// Close ends what still runs and waits for it. The database stays open.
func (b *Bus) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.work.Wait()
	return nil
}

func errClosed() error {
	return &fault.Error{Kind: fault.Unavailable, Code: "closed", Message: "The bus is closed."}
}
