package bus

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// A Position identifies a point in a topic. It is opaque; "" is before the
// first event. Only the engine compares positions.
type Position string

// ErrTrimmed reports that events after the requested position have been removed,
// so that a reader cannot skip events silently. The position "" means the oldest
// event after which there is no gap, so Tail and Fetch return ErrTrimmed for ""
// only if the whole output topic expired.
var ErrTrimmed = errors.New("events after this position were removed by age")

// A Delivery is one event as a subscriber receives it.
type Delivery struct {
	event.Event
	Position Position
	// Attempt counts deliveries of this event to the group, from 1. It is
	// counted before the handler runs, so a crash counts. Zero on tails.
	Attempt int
	// Ack commits the delivery inside tx, so that it commits together with the
	// handler's own writes.
	// Without it the delivery is committed when the handler returns nil.
	Ack func(tx *db.Tx) error
}

// Handler handles one delivery. Nil commits; an error or a panic is retried
// with backoff and after MaxAttempts goes to the dead letters; an error marked
// by [Permanent] goes there at once. An error of the database itself is retried
// until it ends.
type Handler func(ctx context.Context, d Delivery) error

// A Mode defines how the consumers of a topic share its events.
type Mode string

// The modes of a subscription.
const (
	// Work gives each event to one consumer of the group.
	Work Mode = "work"
	// Fanout gives every event to every subscription id (the group's name).
	Fanout Mode = "fanout"
)

// A Subscription declares a durable consumer.
type Subscription struct {
	Topic event.Topic
	// Group is the name of the group (Work) or subscription id (Fanout).
	Group string
	Mode  Mode
	// Consumer is the stable name of this consumer within the group; a
	// restarted consumer first takes back its own deliveries.
	Consumer string
	// FromBegin makes a new group start at the beginning of a log that has
	// history; otherwise it starts at the end.
	FromBegin bool
	// Types are the event types that the handler wants; other events are committed
	// without a call. Empty means all. All consumers of a group declare the same types.
	Types []event.Type
	// Parallel is the maximum number of lanes handled concurrently; default 16.
	Parallel int
	// Lease is how long a delivery stays with a consumer without heartbeat;
	// default 30 s. Heartbeats are the engine's, at a third of it.
	Lease time.Duration
	// Timeout bounds one run of the handler; default 60 s.
	Timeout time.Duration
	// MaxAttempts is the number of attempts before an event becomes a dead letter;
	// default 5.
	MaxAttempts int
	// Backoff is the delay before retry n (from 1); default 100 ms · 4^(n-1), at most 30 s.
	Backoff func(retry int) time.Duration
	// Reads, if set, announces what the handler's transaction will read for an event. It is
	// called in the transaction that appends the event, if the handler will begin at once;
	// see [db.Tx.AheadOfNext]. It must be quick and must not call the bus.
	Reads func(tx *db.Tx, e event.Event)
}

// A Tail describes a live view of a topic that commits nothing.
type Tail struct {
	Topic event.Topic
	// Lane, when set, leaves out events of other lanes.
	Lane string
	// After starts after this position; "" with FromNow false starts at the beginning.
	After Position
	// FromNow starts with the next event and ignores After.
	FromNow bool
	// Ready, if set, is called once when the tail is established: it receives
	// every event published after that.
	Ready func()
}

// A Reader is a pull-based tail. It must be used by one goroutine only.
type Reader interface {
	// Next returns the next event, or false if there is none yet. It may wait for
	// the log, but never for an event. It returns the errors of Tail; after an
	// error the reader is unusable.
	Next(ctx context.Context) (Delivery, bool, error)
	// Close releases the reader.
	Close()
}

// A DeadLetter is an event that could not be handled.
type DeadLetter struct {
	ID       string      `json:"id"`
	Group    string      `json:"group"`
	Event    event.Event `json:"event"`
	Reason   string      `json:"reason"`
	Attempts int         `json:"attempts"`
	At       int64       `json:"at"` // Unix milliseconds
}

// A GroupStatus is the state of a group that doctor and health checks report.
type GroupStatus struct {
	Topic    event.Topic `json:"topic"`
	Group    string      `json:"group"`
	Mode     Mode        `json:"mode"`
	Pending  int64       `json:"pending"`  // delivered, not committed
	Backlog  int64       `json:"backlog"`  // not delivered yet
	OldestMS int64       `json:"oldestMs"` // age of the oldest uncommitted event
	Active   bool        `json:"active"`   // a consumer is attached in this process
	SilentMS int64       `json:"silentMs"` // how long none has been, to the hour; 0 while active
}

// silentTime is how long a group without a backlog may have no consumer.
const silentTime = 24 * time.Hour

// Silent reports whether the group has no consumer although it has work, or has had
// none for a day. The groups of a running program are active, so a silent group is
// a leftover: serve it again or drop it.
func (g GroupStatus) Silent() bool {
	return !g.Active && (g.Pending+g.Backlog > 0 || g.SilentMS > silentTime.Milliseconds())
}

// Bus is the contract of every engine: the union of the interfaces below. The package
// documentation lists its ten rules; the suite in bustest checks them. Packages that
// need a part of it take that part.
type Bus interface {
	Publisher
	Consumers
	Log
	DeadLetterQueue
	GroupTable
	Engine
}

// Publisher publishes events.
type Publisher interface {
	// Publish makes the events durable, all or none, in order. An id that the
	// topic already holds is ignored without an error.
	Publish(ctx context.Context, events ...event.Event) error
}

// Consumers handle the events of groups.
type Consumers interface {
	// Declare creates the group if needed, so that it receives everything
	// published later.
	Declare(ctx context.Context, s Subscription) error
	// Subscribe declares the group and handles its events until ctx ends.
	// It then returns nil, after the running handlers have returned. It returns a
	// fault.Conflict while other consumers serve the group with other types.
	Subscribe(ctx context.Context, s Subscription, h Handler) error
}

// Log reads topics without committing anything.
type Log interface {
	// Tail calls h for each event, in order, until ctx ends (nil) or h fails
	// (its error). It returns ErrTrimmed when it cannot continue without a gap.
	Tail(ctx context.Context, t Tail, h func(Delivery) error) error
	// Open is like Tail, but subscribes one goroutine to many topics: thousands of
	// tails would need as many stacks. The reader does a non-blocking send to wake,
	// which needs a buffer of one, when there may be new events; several readers
	// may share wake. The caller must close the Reader.
	Open(t Tail, wake chan<- struct{}) (Reader, error)
	// Fetch returns up to limit events after a position, oldest first. There may be
	// more when it returns fewer; at the end of the topic it returns none.
	Fetch(ctx context.Context, topic event.Topic, after Position, limit int) ([]Delivery, error)
	// Last returns the position of the newest event of a topic, "" if empty.
	Last(ctx context.Context, topic event.Topic) (Position, error)
	// Back returns a position after which the topic has at most n events, the newest ones.
	Back(ctx context.Context, topic event.Topic, n int) (Position, error)
}

// DeadLetterQueue has the events that could not be handled.
type DeadLetterQueue interface {
	// DeadLetters lists dead letters, newest first.
	DeadLetters(ctx context.Context, before string, limit int) ([]DeadLetter, error)
	// DeadLetter returns one, or a fault.NotFound.
	DeadLetter(ctx context.Context, id string) (DeadLetter, error)
	// Replay delivers a dead letter to its group again and removes it.
	Replay(ctx context.Context, id string) error
	// Drop removes a dead letter for good.
	Drop(ctx context.Context, id string) error
}

// GroupTable has the consumer groups.
type GroupTable interface {
	// Groups reports every group; a silent one raises an alarm in doctor.
	Groups(ctx context.Context) ([]GroupStatus, error)
	// DropGroup removes a group that has no consumer in this process.
	DropGroup(ctx context.Context, topic event.Topic, group string) error
}

// Engine is the life of an engine.
type Engine interface {
	// Trim removes events that are older than the configured age and committed by
	// every live group. The engine also calls it itself, at most once a minute.
	Trim(ctx context.Context) (removed int64, err error)
	// Healthy returns an error while the engine cannot accept or deliver.
	Healthy(ctx context.Context) error
	// Close stops everything; subscriptions should have ended before.
	Close() error
}
