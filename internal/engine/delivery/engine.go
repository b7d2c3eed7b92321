package delivery

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Record is an event with its position in its topic. All receivers share it, so it must
// not be changed.
type Record struct {
	// Seq is the position. It increases within a topic, not always by one.
	Seq int64
	event.Event
}

// size returns the approximate number of bytes that the record takes in memory.
func (r *Record) size() int { return recordBytes + len(r.Data) }

// Topic is the state of a topic in the log. The zero value is a topic that does not
// exist.
type Topic struct {
	Exists bool
	// Last is the position of the newest event, even if that event was removed.
	Last int64
	// Trimmed is the position up to which all events were removed.
	Trimmed int64
	// Expired means that all events of the topic were removed.
	Expired bool
}

// Log stores the events. Its methods must be safe for concurrent use.
type Log interface {
	// Topic returns the state of a topic.
	Topic(ctx context.Context, topic event.Topic) (Topic, error)
	// Read returns the state of the topic and up to limit records after the position
	// after, or after the removed events if that is later. If lane is not empty, it
	// returns only records of that lane. It may return fewer records than exist, but
	// it returns none only at the end of the topic. At a damaged record, it returns
	// the records before it and an error with db.CodeDamagedRow, wrapped in a
	// [Damaged] unless the damaged position is the next one.
	Read(ctx context.Context, topic event.Topic, after int64, lane string, limit int) (Topic, []*Record, error)
	// One returns the record at a position, or nil if it is not in the log.
	One(ctx context.Context, topic event.Topic, seq int64) (*Record, error)
	// Appended returns when the first event at or after a position was appended, in
	// Unix milliseconds, or 0 if there is none.
	Appended(ctx context.Context, topic event.Topic, seq int64) (int64, error)
	// Distance returns the number of events after from, up to and including to.
	Distance(from, to int64) int64
	// Position formats a position for the bus's callers; Seq parses it.
	Position(seq int64) bus.Position
	Seq(p bus.Position) (int64, error)
}

// Options tune an engine. The zero value works; tests shorten the times.
type Options struct {
	// Logger gets the errors that cannot be returned to a caller; default: discarded.
	Logger *slog.Logger
	// Now is the clock of leases, retries and ages; default [time.Now].
	Now func() time.Time
	// Age is the minimum time that events are kept; default 7 days. Ages overrides
	// it for individual topics.
	Age  time.Duration
	Ages map[event.Topic]time.Duration
	// OutputAge is how long an output topic is kept after its last append;
	// default 24 h.
	OutputAge time.Duration
	// SilentAfter is how long a group without a consumer prevents the removal of
	// events that it has not committed; default 7 days.
	SilentAfter time.Duration
	// TrimEvery is the interval of automatic trimming; default one minute. A negative
	// value disables it.
	TrimEvery time.Duration
	// Grace is how long a handler may take to return after its context has ended.
	// After that, its attempt counts as failed; default 5 s.
	Grace time.Duration
	// TailQueue is the maximum number of queued events per tail; default 256.
	TailQueue int
	// Fed is called with the events of each commit, in the order of the log; it may be
	// nil. It must not wait.
	Fed func(records []*Record)
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
	// chunkRows is the maximum number of records per read of the log.
	chunkRows = 256
	// recordBytes is the estimated memory of a record without its data: the struct,
	// its strings and headers.
	recordBytes = 512
)

// WithDefaults returns the options with defaults for the fields that are not set.
func (o Options) WithDefaults() Options {
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

// AgeOf returns the minimum time that events of a topic are kept.
func (o Options) AgeOf(topic event.Topic) time.Duration {
	if age, ok := o.Ages[topic]; ok {
		return age
	}
	return o.Age
}

// Engine delivers the events of one log. An engine of the bus embeds it and adds
// publishing and trimming.
type Engine struct {
	db     *db.DB
	events Log
	opt    Options
	log    *slog.Logger

	mu     sync.RWMutex
	hubs   map[event.Topic]*hub
	groups map[groupName]*group
	closed bool

	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup
}

type groupName struct {
	topic event.Topic
	name  string
}

// New creates an engine on an open database that has [Migrations].
func New(database *db.DB, events Log, opt Options) (*Engine, error) {
	opt = opt.WithDefaults()
	b := &Engine{
		db: database, events: events, opt: opt, log: opt.Logger,
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
	return b, nil
}

// TrimPeriodically calls trim every [Options.TrimEvery] until the engine stops. At the
// same interval, it logs the groups that have no consumer.
func (b *Engine) TrimPeriodically(trim func(context.Context) (int64, error)) {
	if b.opt.TrimEvery <= 0 {
		return
	}
	b.work.Go(func() {
		told := make(map[groupName]bool)
		t := time.NewTicker(b.opt.TrimEvery)
		defer t.Stop()
		for {
			select {
			case <-b.ctx.Done():
				return
			case <-t.C:
			}
			if n, err := trim(b.ctx); err != nil && b.ctx.Err() == nil {
				b.log.Error("trim failed", "error", err)
			} else if n > 0 {
				b.log.Debug("trimmed", "events", n)
			}
			if err := b.alarm(b.ctx, told); err != nil && b.ctx.Err() == nil {
				b.log.Error("groups were not looked at", "error", err)
			}
		}
	})
}

// Trouble returns the reason why events cannot be written or handled, or nil.
func (b *Engine) Trouble() error {
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
	return nil
}

// Stop stops all goroutines of the engine and waits for them.
func (b *Engine) Stop() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.work.Wait()
}

func errClosed() error {
	return &fault.Error{Kind: fault.Unavailable, Code: "closed", Message: "The bus is closed."}
}

// Damaged is the error for a damaged position of a log. A gap counts as one damage, at
// its last position: one flipped bit in the number of the newest row can open a gap of a
// billion positions.
type Damaged struct {
	Seq int64
	Err error
}

// Error returns the text of Err.
func (d *Damaged) Error() string { return d.Err.Error() }

// Unwrap returns Err.
func (d *Damaged) Unwrap() error { return d.Err }
