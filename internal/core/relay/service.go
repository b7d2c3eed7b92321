package relay

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/kernel"
	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// HookName is the owner in the keys of the outbox rows that a relay plans.
const HookName = "relay"

// Bus delivers the commands of requests and has their outputs.
type Bus interface {
	bus.Consumers
	bus.Log
}

// Table stores the rows. Package store implements it.
type Table interface {
	// Relay returns a fault.NotFound for a request that has no relay.
	Relay(q db.Queryer, platform, requestID string) (Row, error)
	SaveRelay(tx *db.Tx, r Row) error
	// LiveRelays returns the requests whose relay has started and not finished.
	LiveRelays(q db.Queryer, platform string) ([]string, error)
}

// Cache caches our messages. Package store implements it.
type Cache interface {
	PutMessage(tx *db.Tx, m surface.Message) error
}

// Platform changes messages on the platform. Its adapter implements it.
type Platform interface {
	Platform() string
	Capabilities() surface.Capabilities
	MaxFileBytes(channelID string) int64
	Edit(ctx context.Context, ref event.MessageRef, c surface.Content) error
	Delete(ctx context.Context, ref event.MessageRef) error
	Typing(ctx context.Context, channelID string) error
}

// Requests answers questions about requests.
type Requests interface {
	// Mention returns the id of the user that the answer mentions first, or "".
	Mention(q db.Queryer, requestID string) (userID string, err error)
	// Askers returns the users whose messages a request answers, each once, in the order in
	// which they asked.
	Askers(q db.Queryer, requestID string) ([]Asker, error)
	// Paused reports whether a request waits for a person's reply.
	Paused(q db.Queryer, requestID string) (bool, error)
	// FinalOutput returns the output of a finished request, from its journal, as
	// events of its output topic.
	FinalOutput(q db.Queryer, sessionID, requestID string) ([]event.Payload, error)
}

// Formatter prepares output for the platform.
type Formatter interface {
	// Rewrite replaces names with mentions and returns the ids of the users.
	Rewrite(ctx context.Context, text string) (out string, users []string)
	// Scrub removes secrets from a text.
	Scrub(text string) string
	// BlobSize returns the size of a blob in bytes.
	BlobSize(ref string) int64
}

// Options configure a [Service].
type Options struct {
	DB       *db.DB
	Bus      Bus
	Table    Table
	Outbox   outbox.Outbox
	Cache    Cache
	Adapter  Platform
	Requests Requests
	// Format prepares texts; nil leaves them as they are.
	Format Formatter
	Logger *slog.Logger
	// Refused is called once for an answer of which people see nothing, or not all
	// (Row.Partly), because the platform refused it; it may be nil.
	Refused func(tx *db.Tx, r Row, askers []Asker) error
	// PingAfter returns how long an answer may take before its end notifies the users
	// who asked, 0 for never; nil means never.
	PingAfter func() time.Duration
	// Interval is the shortest time between two edits of an answer; default 1.2 s.
	Interval time.Duration
	// IdleLimit is how long an output may be silent; default 5 min.
	IdleLimit time.Duration
}

const (
	defaultInterval  = 1200 * time.Millisecond
	defaultIdleLimit = 5 * time.Minute
	// editsPerSecond bounds the edits of all live answers together.
	editsPerSecond = 40
	// maxLive bounds the answers that are shown concurrently; others wait.
	maxLive = 2000
)

// Service shows the output of a platform's requests.
type Service struct {
	o       Options
	core    kernel.Core[string, State, Input, Effect]
	changed chan struct{}

	mu sync.Mutex
	// live has the followers, by request; waiting the requests that wait for one.
	live    map[string]*follower
	waiting []string
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.IdleLimit == 0 {
		o.IdleLimit = defaultIdleLimit
	}
	s := &Service{o: o, live: map[string]*follower{}, changed: make(chan struct{}, 1)}
	s.core = kernel.Core[string, State, Input, Effect]{
		Load: func(tx *db.Tx, requestID string) (State, error) {
			row, err := o.Table.Relay(tx, s.platform(), requestID)
			return State{Row: row}, err
		},
		Decide: Decide,
		Save: func(tx *db.Tx, _ string, before, after State) error {
			if reflect.DeepEqual(before.Row, after.Row) {
				return nil
			}
			return o.Table.SaveRelay(tx, after.Row)
		},
		Carry: s.carry,
		Wake: func(requestID string, before, after State) {
			switch {
			case !before.Row.Started && after.Row.Started:
				s.begin(requestID)
			case !reflect.DeepEqual(before.Row, after.Row):
				s.wake(requestID)
			}
		},
	}
	return s
}

func (s *Service) platform() string { return s.o.Adapter.Platform() }

func (s *Service) subscriptions() []bus.Subscription {
	group := HookName + "-" + s.platform()
	of := func(topic event.Topic, types ...event.Type) bus.Subscription {
		return bus.Subscription{Topic: topic, Group: group, Mode: bus.Fanout, Consumer: group, FromBegin: true, Types: types}
	}
	return []bus.Subscription{
		of(event.TopicRequest, event.RequestReplyStarted, event.RequestLifecycleChanged),
		of(event.TopicCmdSurface, event.CmdSurfaceReanchor),
	}
}

// Declare creates the service's consumer groups. Call it before anything
// publishes.
func (s *Service) Declare(ctx context.Context) error {
	for _, sub := range s.subscriptions() {
		if err := s.o.Bus.Declare(ctx, sub); err != nil {
			return fmt.Errorf("declare %s on %s: %w", sub.Group, sub.Topic, err)
		}
	}
	return nil
}

// Run shows outputs until ctx ends. The next start continues them.
func (s *Service) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	for _, sub := range s.subscriptions() {
		work.Go(func() error { return s.o.Bus.Subscribe(ctx, sub, s.handle) })
	}
	work.Go(func() error { return s.follow(ctx) })
	return work.Wait()
}

// follow starts the followers and waits for them.
func (s *Service) follow(ctx context.Context) error {
	var live []string
	if err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		live, err = s.o.Table.LiveRelays(q, s.platform())
		return err
	}); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("load relays: %w", err)
	}
	for _, id := range live {
		s.begin(id)
	}
	var followers sync.WaitGroup
	defer followers.Wait()
	for {
		for _, f := range s.admit() {
			followers.Go(func() {
				f.run(ctx)
				s.mu.Lock()
				delete(s.live, f.requestID)
				s.mu.Unlock()
				s.notify()
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
	}
}

// admit creates followers for waiting requests while fewer than maxLive run.
func (s *Service) admit() (admitted []*follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 && len(s.live) < maxLive {
		id := s.waiting[0]
		s.waiting = s.waiting[1:]
		if s.live[id] == nil {
			s.live[id] = newFollower(s, id)
			admitted = append(admitted, s.live[id])
		}
	}
	return admitted
}

func (s *Service) begin(requestID string) {
	s.mu.Lock()
	s.waiting = append(s.waiting, requestID)
	s.mu.Unlock()
	s.notify()
}

func (s *Service) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a wake-up is pending
	}
}

// wake makes a request's follower check its row.
func (s *Service) wake(requestID string) {
	s.mu.Lock()
	f := s.live[requestID]
	s.mu.Unlock()
	if f != nil {
		f.notify()
	}
}

// interval returns the shortest time between two edits of one answer.
func (s *Service) interval() time.Duration {
	s.mu.Lock()
	live := len(s.live)
	s.mu.Unlock()
	return max(s.o.Interval, time.Duration(live)*time.Second/editsPerSecond)
}
