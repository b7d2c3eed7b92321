package relay

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// HookName is the owner in the keys of the outbox's rows that a relay plans.
const HookName = "relay"

// Table keeps the rows; package store satisfies it.
type Table interface {
	// Relay is a fault.NotFound for a request that has none.
	Relay(q db.Queryer, platform, requestID string) (Row, error)
	SaveRelay(tx *db.Tx, r Row) error
	// LiveRelays lists the requests whose relay was started and not finished.
	LiveRelays(q db.Queryer, platform string) ([]string, error)
}

// Options are what a [Service] is made of.
type Options struct {
	DB      *db.DB
	Bus     bus.Bus
	Table   Table
	Outbox  outbox.Outbox
	Cache   surface.Cache
	Adapter surface.Adapter
	// Rewrite turns names into mentions; nil leaves texts as they are.
	Rewrite func(ctx context.Context, text string) (out string, users []string)
	// Scrub takes secrets out of a text before it is cut; nil knows none.
	Scrub func(text string) string
	// Mention returns the person whom the answer to a request begins with, as
	// the platform's id, or ""; nil mentions nobody.
	Mention func(q db.Queryer, requestID string) (userID string, err error)
	// BlobSize is the size of what a reference stands for, in bytes.
	BlobSize func(ref string) int64
	// Paused reports whether a request waits for a person's answer; nil never.
	Paused func(q db.Queryer, requestID string) (bool, error)
	// Said is what a request that has ended has said, as events of its output,
	// for when that is gone; nil does not know.
	Said   func(q db.Queryer, sessionID, requestID string) ([]event.Payload, error)
	Logger *slog.Logger
	// Interval is the least time between two edits of an answer; default 1.2 s.
	Interval time.Duration
	// IdleLimit is how long an output may be silent; default 5 min.
	IdleLimit time.Duration
}

const (
	defaultInterval  = 1200 * time.Millisecond
	defaultIdleLimit = 5 * time.Minute
	// editsPerSecond is what all live answers together may edit.
	editsPerSecond = 40
	// maxLive bounds how many answers are shown at once; more wait their turn.
	maxLive = 2000
)

// Service shows the output of a platform's requests.
type Service struct {
	o Options

	mu sync.Mutex
	// live has a follower for each answer that is being shown, waiting what is
	// to be shown as soon as there is room.
	live    map[string]*follower
	waiting []string
	changed chan struct{}
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
	return &Service{o: o, live: map[string]*follower{}, changed: make(chan struct{}, 1)}
}

func (s *Service) platform() string { return s.o.Adapter.Platform() }

type subscription struct {
	bus.Subscription
	handle bus.Handler
}

func (s *Service) subscriptions() []subscription {
	group := "relay-" + s.platform()
	of := func(topic event.Topic, handle bus.Handler, types ...event.Type) subscription {
		return subscription{bus.Subscription{Topic: topic, Group: group, Mode: bus.Fanout, Consumer: group, FromBegin: true, Types: types}, handle}
	}
	return []subscription{
		of(event.TopicRequest, s.handleRequest, event.RequestReplyStarted, event.RequestLifecycleChanged),
		of(event.TopicCmdSurface, s.handleReanchor, event.CmdSurfaceReanchor),
	}
}

// Declare makes the service's groups exist; call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	for _, sub := range s.subscriptions() {
		if err := s.o.Bus.Declare(ctx, sub.Subscription); err != nil {
			return fmt.Errorf("declare %s on %s: %w", sub.Group, sub.Topic, err)
		}
	}
	return nil
}

// Run shows outputs until ctx ends; what was being shown goes on at the next
// start.
func (s *Service) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	for _, sub := range s.subscriptions() {
		work.Go(func() error { return s.o.Bus.Subscribe(ctx, sub.Subscription, sub.handle) })
	}
	work.Go(func() error { return s.follow(ctx) })
	return work.Wait()
}

// follow owns the followers.
func (s *Service) follow(ctx context.Context) error {
	var found []string
	if err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		found, err = s.o.Table.LiveRelays(q, s.platform())
		return err
	}); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("load relays: %w", err)
	}
	for _, id := range found {
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

// admit makes followers of what waits, while there is room.
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
	default: // it is going to look anyway
	}
}

// wake tells a request's follower that its row has changed.
func (s *Service) wake(requestID string) {
	s.mu.Lock()
	f := s.live[requestID]
	s.mu.Unlock()
	if f != nil {
		f.notify()
	}
}

// interval is the least time between two edits of one answer.
func (s *Service) interval() time.Duration {
	s.mu.Lock()
	live := len(s.live)
	s.mu.Unlock()
	return max(s.o.Interval, time.Duration(live)*time.Second/editsPerSecond)
}

func (s *Service) handleRequest(ctx context.Context, d bus.Delivery) error {
	if d.Headers.Client() != s.platform() {
		return nil
	}
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	id := d.Headers.RequestID()
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if err := d.Ack(tx); err != nil {
			return err
		}
		row, err := s.row(tx, d.Headers)
		if err != nil || row.Finished {
			return err
		}
		switch p := payload.(type) {
		case event.RequestReply:
			if row.Started {
				return nil
			}
			row.Started, row.ReplyTo = true, replyTarget(id, s.platform())
			if s.o.Mention != nil {
				if row.Mention, err = s.o.Mention(tx, id); err != nil {
					return fmt.Errorf("find whom to mention: %w", err)
				}
			}
			tx.AfterCommit(func() { s.begin(id) })
		case event.RequestLifecycle:
			if !p.State.Ended() || row.End != nil {
				return nil
			}
			// One that never ran has nothing to show, and nobody to show it.
			row.End, row.Finished = &End{State: p.State, Detail: p.Detail, At: tx.Now().UnixMilli()}, !row.Started
			tx.AfterCommit(func() { s.wake(id) })
		}
		return s.o.Table.SaveRelay(tx, row)
	})
}

func (s *Service) handleReanchor(ctx context.Context, d bus.Delivery) error {
	if d.Headers.Client() != s.platform() {
		return nil
	}
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	p, ok := payload.(event.SurfaceReanchor)
	if !ok {
		return nil
	}
	cut := Cut{ID: d.ID, MessageID: p.MessageID, Offset: -1, Inherit: p.InheritReplyTo}
	if p.ReplyTo != nil {
		cut.ReplyTo = p.ReplyTo.MessageID
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if err := d.Ack(tx); err != nil {
			return err
		}
		row, err := s.row(tx, d.Headers)
		if err != nil || row.Finished || row.hasCut(cut.ID) || len(row.Cuts) >= maxCuts {
			return err
		}
		row.Cuts = append(row.Cuts, cut)
		tx.AfterCommit(func() { s.wake(row.RequestID) })
		return s.o.Table.SaveRelay(tx, row)
	})
}

// maxCuts bounds how often one answer moves.
const maxCuts = 200

func (r Row) hasCut(id string) bool {
	for _, c := range r.Cuts {
		if c.ID == id {
			return true
		}
	}
	return false
}

// row loads the request's row, or begins one.
func (s *Service) row(q db.Queryer, h event.Headers) (Row, error) {
	row, err := s.o.Table.Relay(q, s.platform(), h.RequestID())
	if fault.KindOf(err) == fault.NotFound {
		return Row{RequestID: h.RequestID(), SessionID: h.SessionID(), Platform: s.platform()}, nil
	}
	return row, err
}

// replyTarget is the message that a request's id names, "" for none: the
// specific part is a message's id only if it is a number.
func replyTarget(requestID, platform string) string {
	r, err := event.ParseRequestID(requestID)
	if err != nil || r.Surface != platform || strings.Trim(r.Specific, "0123456789") != "" {
		return ""
	}
	return r.Specific
}

// OnSent binds the id of a message when it becomes known; the outbox calls it
// for the rows that a relay planned.
func (s *Service) OnSent(tx *db.Tx, r outbox.Row, m surface.Message) error {
	key := r.Key[strings.LastIndexByte(r.Key, ':')+1:]
	key, _, _ = strings.Cut(key, "~")
	row, err := s.o.Table.Relay(tx, s.platform(), r.RequestID)
	if err != nil {
		return err
	}
	if r.State == outbox.Failed && !r.Withdrawn && len(r.Send.Files) > 0 {
		return s.withoutFiles(tx, row, key, r)
	}
	made, ok := row.message(key)
	if !ok {
		return fmt.Errorf("bind message %s: its relay does not know it", r.Key)
	}
	made.State, made.ID = MessageLost, ""
	anew := false
	switch {
	case r.State == outbox.Sent:
		made.State, made.ID = MessageSent, r.MessageID
		if err := s.announce(tx, r, m); err != nil {
			return err
		}
	case r.State == outbox.Failed && r.Withdrawn:
		made.State = MessageUnsent
	case r.State == outbox.Failed && row.Reason == "":
		row.Reason = r.Reason
	case r.State == outbox.Expired && !r.Unsure && (row.End == nil || r.CreatedAt < row.End.At):
		// It has the whole of its time after the request's end, but not more.
		made.State, anew = MessageUnsent, true
	}
	row.set(made)
	tx.AfterCommit(func() { s.wake(r.RequestID) })
	if err := s.o.Table.SaveRelay(tx, row); err != nil || !anew {
		return err
	}
	return s.withdraw(tx, row) // what was planned behind it has to stay behind it
}

// withdraw takes back what is planned. OnSent hears of it.
func (s *Service) withdraw(tx *db.Tx, row Row) error {
	for _, key := range row.planned() {
		if err := s.o.Outbox.Withdraw(tx, key); err != nil {
			return fmt.Errorf("withdraw %s: %w", key, err)
		}
	}
	return nil
}

// withoutFiles sends what a message says without the files with which it was
// refused: perhaps they were why. What becomes of that decides about the rest.
func (s *Service) withoutFiles(tx *db.Tx, row Row, key string, r outbox.Row) error {
	made, ok := row.message(key)
	if !ok {
		return fmt.Errorf("send message %s without files: its relay does not know it", r.Key)
	}
	made.State, made.Refused = MessageLost, r.Reason
	if r.Send.Text != "" {
		made.State = MessagePlanned
		made.Copies++
		r.Send.Files, r.Send.Nonce = nil, ""
		again := outbox.Row{Key: row.outboxKey(made), RequestID: r.RequestID, SessionID: r.SessionID, Send: r.Send}
		if err := s.o.Outbox.Plan(tx, again); err != nil {
			return fmt.Errorf("plan message %s without files: %w", r.Key, err)
		}
	}
	row.set(made)
	tx.AfterCommit(func() { s.wake(r.RequestID) })
	return s.o.Table.SaveRelay(tx, row)
}

// announce tells that a message shows the request's output.
func (s *Service) announce(tx *db.Tx, r outbox.Row, m surface.Message) error {
	m.Platform, m.ChannelID, m.ID, m.RequestID, m.FromSelf = s.platform(), r.Send.ChannelID, r.MessageID, r.RequestID, true
	if m.CreatedAt == 0 {
		m.CreatedAt = tx.Now().UnixMilli()
	}
	if err := s.o.Cache.PutMessage(tx, m); err != nil {
		return fmt.Errorf("remember our message: %w", err)
	}
	e, err := event.New(event.Meta{ID: "created:" + r.Key, Time: tx.Now(), Headers: event.RequestHeaders(r.RequestID, r.SessionID, s.platform())},
		event.SurfaceMessageCreated{MsgRef: m.Ref()})
	if err != nil {
		return err
	}
	return tx.Publish(e)
}
