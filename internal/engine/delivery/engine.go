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

// Record is an event with its place in its topic. It is shared between all who
// receive it and never changed.
type Record struct {
	// Seq grows within a topic. Where Seq+1 is missing, the log is asked.
	Seq int64
	event.Event
}

// size is about how many bytes the record takes in memory.
func (r *Record) size() int { return recordBytes + len(r.Data) }

// Topic is what a log knows of a topic. The zero value is a topic that does
// not exist.
type Topic struct {
	Exists bool
	// Last is the place of the newest event, also when that was removed.
	Last int64
	// Trimmed is the place up to which everything was removed.
	Trimmed int64
	// Expired says that the topic was removed as a whole.
	Expired bool
}

// Log is where the events are. Its methods are called side by side.
type Log interface {
	// Topic returns what is known of a topic.
	Topic(ctx context.Context, topic event.Topic) (Topic, error)
	// Read returns the topic and up to limit records behind after, or behind
	// what was removed if that is later; of one lane if lane is not empty. It
	// may return fewer records than there are, but none only at the end. A
	// damaged record ends the result with its fault (db.CodeDamagedRow, in a
	// [Damaged] unless it is the next place); what came before it is returned.
	Read(ctx context.Context, topic event.Topic, after int64, lane string, limit int) (Topic, []*Record, error)
	// One returns the record at a place, or nil when it is not in the log.
	One(ctx context.Context, topic event.Topic, seq int64) (*Record, error)
	// Appended returns when the first event at or behind a place was appended,
	// in Unix milliseconds, or 0 when there is none.
	Appended(ctx context.Context, topic event.Topic, seq int64) (int64, error)
	// Distance returns how many events lie behind from, up to to.
	Distance(from, to int64) int64
	// Position is how a place is written; Seq reads it back.
	Position(seq int64) bus.Position
	Seq(p bus.Position) (int64, error)
}

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
	// chunkRows bounds one read of the log.
	chunkRows = 256
	// recordBytes is what a record takes beside its data: the struct, its
	// strings and headers.
	recordBytes = 512
)

// WithDefaults fills in what is not set.
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

// AgeOf is how long events of a topic are kept at least.
func (o Options) AgeOf(topic event.Topic) time.Duration {
	if age, ok := o.Ages[topic]; ok {
		return age
	}
	return o.Age
}

// Engine delivers from one log. An engine of the bus embeds it and adds
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

// New makes an engine on an open database that has [Migrations].
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

// Regularly calls trim every [Options.TrimEvery] until the engine is stopped,
// and raises an alarm for groups that fell silent.
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

// Trouble says why events cannot be written or handled, or nil.
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

// Stop ends what still runs and waits for it.
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

// Refresh makes every group and every tail read its log again: it has what was
// not fed.
func (b *Engine) Refresh() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, h := range b.hubs {
		h.rereadAll()
	}
	for _, g := range b.groups {
		g.mu.Lock()
		g.missed = true
		g.mu.Unlock()
		g.wakeDispatcher()
	}
}

// Damaged says at which place a log is damaged. Events that are missing are one
// damage at the last of their places, however many they are: a single wrong bit
// in the number of the newest row opens a gap of a billion.
type Damaged struct {
	Seq int64
	Err error
}

// Error is what Err says.
func (d *Damaged) Error() string { return d.Err.Error() }

// Unwrap returns Err.
func (d *Damaged) Unwrap() error { return d.Err }
