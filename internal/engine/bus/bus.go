package bus

import (
	"context"
	"errors"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Position is an engine's place in a topic. It is opaque; "" is before the
// first event. Positions of one topic are compared by the engine only.
type Position string

// ErrTrimmed is returned by Tail and Fetch when events after the asked
// position have been removed by age, so that a reader cannot skip silently. The
// position "" means the oldest event behind which nothing is missing, so it is returned
// for "" only by an output topic that expired as a whole.
var ErrTrimmed = errors.New("events after this position were removed by age")

// Delivery is one event as a subscriber gets it.
type Delivery struct {
	event.Event
	Position Position
	// Attempt counts deliveries of this event to the group, from 1. It is
	// counted before the handler runs, so a crash counts. Zero on tails.
	Attempt int
	// Ack commits the delivery inside tx, so that it is done exactly when the
	// handler's own writes are. On engines that share no transaction with the
	// store it commits after tx did; the handler deduplicates by event id.
	// Without it the delivery is committed when the handler returns nil.
	Ack func(tx *db.Tx) error
}

// Handler handles one delivery. Nil commits; an error or a panic is retried
// with backoff and after MaxAttempts goes to the dead letters; an error marked
// by [Permanent] goes there at once.
type Handler func(ctx context.Context, d Delivery) error

// Mode is how a group shares a topic.
type Mode string

// The modes of a subscription.
const (
	// Work gives each event to one consumer of the group.
	Work Mode = "work"
	// Fanout gives every event to every subscription id (the group's name).
	Fanout Mode = "fanout"
)

// Subscription declares a durable consumer.
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
	// Types are what the handler cares for; others are committed unseen.
	// Empty means all. Consumers that serve a group together declare the same.
	Types []event.Type
	// Parallel bounds how many lanes are handled side by side; default 16.
	Parallel int
	// Lease is how long a delivery stays with a consumer without heartbeat;
	// default 30 s. Heartbeats are the engine's, at a third of it.
	Lease time.Duration
	// Timeout bounds one run of the handler; default 60 s.
	Timeout time.Duration
	// MaxAttempts is how often an event is tried; default 5.
	MaxAttempts int
	// Backoff is the delay before retry n (from 1); default 100 ms · 4^(n-1), at most 30 s.
	Backoff func(retry int) time.Duration
}

// Tail asks for a live view of a topic that commits nothing.
type Tail struct {
	Topic event.Topic
	// Lane, when set, leaves out events of other lanes.
	Lane string
	// After starts behind this position; "" with FromNow false starts at the beginning.
	After Position
	// FromNow starts with the next event and ignores After.
	FromNow bool
	// Ready, when set, is called once when the tail is in place: an event
	// published after it will be seen.
	Ready func()
}

// Reader is a tail that is asked. One goroutine uses it.
type Reader interface {
	// Next returns the next event, or false when there is none now. It waits
	// for the log only, never for an event. Its errors are those of Tail, and
	// the reader is of no use after one.
	Next(ctx context.Context) (Delivery, bool, error)
	// Close frees the reader.
	Close()
}

// DeadLetter is an event that could not be handled.
type DeadLetter struct {
	ID       string      `json:"id"`
	Group    string      `json:"group"`
	Event    event.Event `json:"event"`
	Reason   string      `json:"reason"`
	Attempts int         `json:"attempts"`
	At       int64       `json:"at"` // Unix milliseconds
}

// GroupStatus is what doctor and health see of a group.
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

// silentTime is how long a group with nothing to do may be without a consumer.
const silentTime = 24 * time.Hour

// Silent reports whether nobody serves the group although there is work for
// it, or nobody has for a day. The groups of a running program are active, so a
// silent one was left behind: serve it again or drop it.
func (g GroupStatus) Silent() bool {
	return !g.Active && (g.Pending+g.Backlog > 0 || g.SilentMS > silentTime.Milliseconds())
}

// Bus is the contract that every engine keeps; see the package documentation
// for its ten rules and bustest for the suite that checks them.
type Bus interface {
	// Publish makes the events durable, all or none, in order. An id that the
	// topic still holds is not added again; that is no error.
	Publish(ctx context.Context, events ...event.Event) error
	// Declare makes the group exist, so that nothing published later is missed.
	Declare(ctx context.Context, s Subscription) error
	// Subscribe declares the group and handles its events until ctx ends.
	// It returns nil then, after the running handlers have returned. It is a
	// fault.Conflict while others serve the group for other types.
	Subscribe(ctx context.Context, s Subscription, h Handler) error
	// Tail calls h for each event, in order, until ctx ends (nil) or h fails
	// (its error). It returns ErrTrimmed when it cannot continue gaplessly.
	Tail(ctx context.Context, t Tail, h func(Delivery) error) error
	// Open is Tail for who reads many topics in one goroutine: thousands of
	// readers of three topics each would need as many stacks. The reader sends
	// to wake, which has room for one, when there may be something new, and
	// never waits for it; several readers may share wake. Who opens one closes it.
	Open(t Tail, wake chan<- struct{}) (Reader, error)
	// Fetch returns up to limit events after a position, oldest first. There may be
	// more when it returns fewer; at the end of the topic it returns none.
	Fetch(ctx context.Context, topic event.Topic, after Position, limit int) ([]Delivery, error)
	// Last returns the position of the newest event of a topic, "" if empty.
	Last(ctx context.Context, topic event.Topic) (Position, error)

	// DeadLetters lists dead letters, newest first.
	DeadLetters(ctx context.Context, before string, limit int) ([]DeadLetter, error)
	// DeadLetter returns one, or a fault.NotFound.
	DeadLetter(ctx context.Context, id string) (DeadLetter, error)
	// Replay hands a dead letter to its group again and removes it.
	Replay(ctx context.Context, id string) error
	// Drop removes a dead letter for good.
	Drop(ctx context.Context, id string) error

	// Groups reports every group; a silent one raises an alarm in doctor.
	Groups(ctx context.Context) ([]GroupStatus, error)
	// DropGroup removes a group that no consumer of this process serves.
	DropGroup(ctx context.Context, topic event.Topic, group string) error
	// Trim removes what is older than the configured ages and committed by
	// every live group. The engine also calls it by itself, at most once a minute.
	Trim(ctx context.Context) (removed int64, err error)
	// Healthy returns an error while the engine cannot accept or deliver.
	Healthy(ctx context.Context) error
	// Close stops everything; subscriptions should have ended before.
	Close() error
}
