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
)

// The kinds of sources.
const (
	SourceWebhook = "webhook"
	SourceFiles   = "files"
	SourceTimer   = "timer"
)

// SourceID names where events come from.
type SourceID struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// SourceCounts is what came from a source since the start.
type SourceCounts struct {
	SourceID
	// Accepted are events that were published, Duplicates those that had been
	// before, Dropped those beyond the queue, and Refused what had no good
	// signature or no id.
	Accepted   int64 `json:"accepted"`
	Duplicates int64 `json:"duplicates"`
	Dropped    int64 `json:"dropped"`
	Refused    int64 `json:"refused"`
	// Waiting are events that are published and that no rule has handled yet.
	Waiting int `json:"waiting"`
	// LastDropped is when an event was dropped last, Unix milliseconds.
	LastDropped int64 `json:"lastDropped,omitempty"`
	// Trouble says why the source does not work, or "".
	Trouble string `json:"trouble,omitempty"`
}

// Intake publishes what sources observe, as long as not too many events of the
// source wait to be handled. What waited when the program ended is not counted
// after a start.
type Intake struct {
	db    *db.DB
	inbox Inbox
	// writing holds a token for each event that is being written.
	writing chan struct{}

	mu sync.Mutex
	// waiting are the events that are not handled yet; the queues of the
	// sources bound it.
	waiting map[string]SourceID
	counts  map[SourceID]*SourceCounts
}

// maxConcurrentWrites bounds how many events of sources share a commit: what people do, which
// shares it or comes next, waits for no more than these in a storm.
const maxConcurrentWrites = 8

// NewIntake returns an intake.
func NewIntake(database *db.DB, inbox Inbox) *Intake {
	return &Intake{db: database, inbox: inbox, writing: make(chan struct{}, maxConcurrentWrites), waiting: map[string]SourceID{}, counts: map[SourceID]*SourceCounts{}}
}

// errQueueFull is what a sender hears whose events come faster than they are
// handled.
var errQueueFull = &fault.Error{
	Kind: fault.RateLimited, Code: "queue_full", RetryAfter: time.Minute,
	Message: "Too many events of this source wait to be handled. Send it again later.",
}

// Publish publishes an event of a source and returns when it is durable. An
// event beyond queue, which is how many may wait, is dropped and counted, with a
// fault.RateLimited. also, which may be nil, runs in the same transaction; the
// event is published only if it returns true.
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

// write is an Update when it is the event's turn.
func (i *Intake) write(ctx context.Context, fn func(*db.Tx) error) error {
	select {
	case i.writing <- struct{}{}:
		defer func() { <-i.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return i.db.Update(ctx, fn)
}

// admit takes a place in the queue; mine is false when the event has one.
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

func (i *Intake) dropLocked(c *SourceCounts, n int64) {
	c.Dropped += n
	c.LastDropped = time.Now().UnixMilli()
}

// Drop counts events that a source could not keep until they were published.
func (i *Intake) Drop(from SourceID, n int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.dropLocked(i.countsLocked(from), n)
}

// Refuse counts what somebody sent who is not the sender.
func (i *Intake) Refuse(from SourceID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.countsLocked(from).Refused++
}

// SetTrouble says why a source does not work; "" that it does.
func (i *Intake) SetTrouble(from SourceID, why string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.countsLocked(from).Trouble = why
}

// handled gives back the place of an event that was handled or given up.
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

// Keep makes the sources of a kind those that are given; one that is gone is
// forgotten, with what it counted.
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

// Counts are those of every source, by kind and name.
func (i *Intake) Counts() []SourceCounts {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := make([]SourceCounts, 0, len(i.counts))
	for _, c := range i.counts {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b SourceCounts) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return out
}
