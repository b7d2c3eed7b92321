package environment

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// The kinds of sources.
const (
	SourceWebhook = "webhook"
	SourceFiles   = "files"
	SourceTimer   = "timer"
	SourceProgram = "program"
	SourceMCP     = "mcp"
)

// SourceID identifies a source of events.
type SourceID struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// SourceCounts counts the events of a source since the start.
type SourceCounts struct {
	SourceID
	// Accepted counts the published events, Duplicates the repeated ones, Dropped the
	// ones beyond the queue, and Refused the ones without a valid signature or id,
	// with a body that is too large or too slow, and lines that are not events.
	Accepted   int64 `json:"accepted"`
	Duplicates int64 `json:"duplicates"`
	Dropped    int64 `json:"dropped"`
	Refused    int64 `json:"refused"`
	// Waiting counts the published events that are not handled yet.
	Waiting int `json:"waiting"`
	// LastDropped is the time of the last dropped event, in Unix milliseconds.
	LastDropped int64 `json:"lastDropped,omitempty"`
	// Trouble is the reason why the source does not work, or "".
	Trouble string `json:"trouble,omitempty"`
}

// Intake publishes the events of sources, and limits the unhandled events of each source.
// Events that were unhandled when the process ended are not counted after a start. An
// Intake is safe for concurrent use.
type Intake struct {
	db    *db.DB
	inbox Inbox
	// writing is a semaphore for transactions; see maxConcurrentWrites.
	writing chan struct{}

	mu sync.Mutex
	// waiting are the unhandled events by id, bounded by the queues of the sources.
	waiting map[string]SourceID
	counts  map[SourceID]*SourceCounts
	// released is closed when an event leaves a queue; nil if nothing waits for that.
	released chan struct{}
}

// maxConcurrentWrites bounds how many events of sources share a commit, so that in a storm
// of events the requests of people wait for no more than these.
const maxConcurrentWrites = 8

// NewIntake returns an intake.
func NewIntake(database *db.DB, inbox Inbox) *Intake {
	return &Intake{db: database, inbox: inbox, writing: make(chan struct{}, maxConcurrentWrites), waiting: map[string]SourceID{}, counts: map[SourceID]*SourceCounts{}}
}

// errQueueFull tells a sender that its events come faster than they are handled.
var errQueueFull = &fault.Error{
	Kind: fault.RateLimited, Code: "queue_full", RetryAfter: time.Minute,
	Message: "Too many events of this source are unhandled. Send the event again later.",
}

// Publish publishes an event of a source and returns when it is durable. If queue events of
// the source are unhandled, it drops and counts the event, and returns a
// fault.RateLimited. also, which may be nil, runs in the same transaction; the event is
// published only if also returns true.
func (i *Intake) Publish(ctx context.Context, from SourceID, queue int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (published bool, err error) {
	mine, err := i.admit(from, queue, e.ID)
	if err != nil {
		return false, err
	}
	err = i.write(ctx, func(tx *db.Tx) error {
		published = true
		if also != nil {
			if published, err = also(tx); err != nil || !published {
				return err
			}
		}
		published, err = PublishTraced(tx, i.inbox, e, event.TraceParent(ctx))
		return err
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	if mine && (err != nil || !published) {
		i.releaseLocked(e.ID)
	}
	switch c := i.countsLocked(from); {
	case err != nil:
		return false, err
	case published:
		c.Accepted++
	default:
		c.Duplicates++
	}
	return published, nil
}

// write runs fn in a transaction, at most maxConcurrentWrites at a time.
func (i *Intake) write(ctx context.Context, fn func(*db.Tx) error) error {
	select {
	case i.writing <- struct{}{}:
		defer func() { <-i.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return i.db.Update(ctx, fn)
}

// admit adds an event to the queue of its source. mine is false if it is in the queue
// already.
func (i *Intake) admit(from SourceID, queue int, id string) (mine bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, waits := i.waiting[id]; waits {
		return false, nil
	}
	c := i.countsLocked(from)
	if c.Waiting >= queue {
		i.dropLocked(c, 1)
		return false, errQueueFull
	}
	i.waiting[id] = from
	c.Waiting++
	return true, nil
}

// AwaitRoom waits until fewer than queue events of a source are unhandled. A source that
// calls it before each [Intake.Publish], from one goroutine, drops nothing.
func (i *Intake) AwaitRoom(ctx context.Context, from SourceID, queue int) error {
	for {
		i.mu.Lock()
		if i.countsLocked(from).Waiting < queue {
			i.mu.Unlock()
			return nil
		}
		if i.released == nil {
			i.released = make(chan struct{})
		}
		released := i.released
		i.mu.Unlock()
		select {
		case <-released:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (i *Intake) dropLocked(c *SourceCounts, n int64) {
	c.Dropped += n
	c.LastDropped = time.Now().UnixMilli()
}

// Drop counts events that a source had to drop before publishing them.
func (i *Intake) Drop(from SourceID, n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropLocked(i.countsLocked(from), n)
}

// Refuse counts a delivery without a valid signature or id.
func (i *Intake) Refuse(from SourceID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.countsLocked(from).Refused++
}

// SetTrouble sets the reason why a source does not work, or "".
func (i *Intake) SetTrouble(from SourceID, why string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.countsLocked(from).Trouble = why
}

// release removes an event that was handled, or became a dead letter, from its queue.
func (i *Intake) release(id string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.releaseLocked(id)
}

func (i *Intake) releaseLocked(id string) {
	if from, ok := i.waiting[id]; ok {
		delete(i.waiting, id)
		if c, ok := i.counts[from]; ok {
			c.Waiting--
		}
		if i.released != nil {
			close(i.released)
			i.released = nil
		}
	}
}

func (i *Intake) countsLocked(from SourceID) *SourceCounts {
	c, ok := i.counts[from]
	if !ok {
		c = &SourceCounts{SourceID: from}
		i.counts[from] = c
	}
	return c
}

// SetSources sets the sources of a kind, and removes the counts of all others of the
// kind.
func (i *Intake) SetSources(kind string, names []string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for from := range i.counts {
		if from.Kind == kind && !slices.Contains(names, from.Name) {
			delete(i.counts, from)
		}
	}
	for id, from := range i.waiting {
		if _, kept := i.counts[from]; !kept {
			delete(i.waiting, id)
		}
	}
	for _, name := range names {
		i.countsLocked(SourceID{kind, name})
	}
}

// Counts returns the counts of all sources, sorted by kind and name.
func (i *Intake) Counts() []SourceCounts {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]SourceCounts, 0, len(i.counts))
	for _, c := range i.counts {
		out = append(out, *c)
	}
	order.By(out, func(a, b SourceCounts) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}
