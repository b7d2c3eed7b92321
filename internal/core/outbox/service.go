package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const (
	// maxChannels bounds how many channels are sent to side by side; platforms
	// limit far below it.
	maxChannels = 64
	// maxWaiting bounds how many channels are looked at in one go.
	maxWaiting = 1000
	// callLimit bounds one call; after it the outcome is unknown.
	callLimit = 30 * time.Second
	// nonceMargin allows for a platform's clock that is behind ours.
	nonceMargin = time.Minute
	// longestPause is when the rows are looked at again at the latest.
	longestPause = time.Minute
	// retryPause is the wait after a transaction that failed.
	retryPause = time.Second
	// defaultTTL is how long a row is worth sending.
	defaultTTL = 15 * time.Minute
	// nonceBytes is what a platform takes (Discord: 25).
	nonceBytes = 25
)

// Options are what a [Service] is made of.
type Options struct {
	DB      *db.DB
	Table   Table
	Adapter surface.Adapter
	// Hooks are called for the rows whose key begins with their name and a
	// colon, in the transaction that ends the row.
	Hooks map[string]OnSent
	// Wanted are asked by the same names; what has none is wanted.
	Wanted map[string]Wanted
	Logger *slog.Logger
	Now    func() time.Time
}

// Service sends the rows of one platform.
type Service struct {
	o    Options
	wake chan struct{}

	mu sync.Mutex
	// waiters are told when the row of a key has ended.
	waiters map[string][]chan struct{}
}

var _ Outbox = (*Service)(nil)

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o: o, wake: make(chan struct{}, 1), waiters: map[string][]chan struct{}{}}
}

// Plan implements [Outbox]. What is not set gets its default: created now, worth
// sending for a quarter of an hour, with a nonce that is made of the key.
func (s *Service) Plan(tx *db.Tx, r Row) error {
	if r.Key == "" || r.Send.ChannelID == "" {
		return fault.New(fault.Invalid, "What goes out needs a key and a channel.")
	}
	if r.Send.Nonce == "" {
		sum := sha256.Sum256([]byte(r.Key))
		r.Send.Nonce = base32.HexEncoding.EncodeToString(sum[:])[:nonceBytes]
	}
	r.Platform, r.State = s.o.Adapter.Platform(), Planned
	if r.CreatedAt == 0 {
		r.CreatedAt = tx.Now().UnixMilli()
	}
	if r.ExpiresAt == 0 {
		r.ExpiresAt = r.CreatedAt + defaultTTL.Milliseconds()
	}
	fresh, err := s.o.Table.Plan(tx, r)
	if fresh {
		tx.AfterCommit(s.notify)
	}
	return err
}

// Withdraw implements [Outbox].
func (s *Service) Withdraw(tx *db.Tx, key string) error {
	r, err := s.o.Table.Row(tx, key)
	if fault.KindOf(err) == fault.NotFound {
		return nil // it was never planned, or ended long ago
	}
	if err != nil || r.State.Final() {
		return err
	}
	return s.write(tx, Withdraw(r), surface.Message{})
}

func (s *Service) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Wait implements [Outbox].
func (s *Service) Wait(ctx context.Context, key string) (row Row, err error) {
	ended := make(chan struct{})
	s.mu.Lock()
	s.waiters[key] = append(s.waiters[key], ended)
	s.mu.Unlock()
	defer s.forget(key, ended)
	for {
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			row, err = s.o.Table.Row(q, key)
			return err
		})
		if err != nil || row.State.Final() {
			return row, err
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return row, fmt.Errorf("wait for %s: %w", key, ctx.Err())
		}
	}
}

func (s *Service) forget(key string, ended chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.waiters[key][:0]
	for _, w := range s.waiters[key] {
		if w != ended {
			left = append(left, w)
		}
	}
	if s.waiters[key] = left; len(left) == 0 {
		delete(s.waiters, key)
	}
}

func (s *Service) tell(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters[key] {
		close(w)
	}
	delete(s.waiters, key)
}

// Run sends until ctx ends. What was being sent when it ends is reconciled at
// the next start.
func (s *Service) Run(ctx context.Context) error {
	var work errgroup.Group
	defer func() { _ = work.Wait() }() // workers report by themselves
	done := make(chan string)
	busy := map[string]bool{}
	for {
		var rows []Row
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			rows, err = s.o.Table.Unfinished(q, s.o.Adapter.Platform(), maxWaiting)
			return err
		})
		later := longestPause
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "the outbox cannot be read", "error", err)
			later = retryPause
		}
		for _, r := range rows {
			channel := r.Send.ChannelID
			if busy[channel] {
				continue
			}
			// What waits takes no place of those that can be sent.
			now := s.o.Now()
			if _, action := Next(r, now); action == Wait {
				later = min(later, time.UnixMilli(r.NotBefore).Sub(now))
				continue
			}
			if len(busy) >= maxChannels {
				continue
			}
			busy[channel] = true
			work.Go(func() error {
				s.finish(ctx, r)
				select {
				case done <- channel:
				case <-ctx.Done():
				}
				return nil
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case channel := <-done:
			delete(busy, channel)
		case <-s.wake:
		case <-time.After(later):
		}
	}
}

// finish drives a row to its end, or to where it has to wait.
func (s *Service) finish(ctx context.Context, r Row) {
	for ctx.Err() == nil {
		next, action := Next(r, s.o.Now())
		if next.State != r.State {
			next = s.settled(ctx, next, surface.Message{})
		}
		r = next
		if ctx.Err() != nil || r.State.Final() {
			return
		}
		switch action {
		case Rest, Wait:
			return
		case Call:
			m, err := s.call(ctx, r)
			if ctx.Err() != nil {
				return // the row stays in sending
			}
			r = s.settled(ctx, Called(r, m, err, s.o.Now()), m)
		case Reconcile:
			m, found, err := s.find(ctx, r)
			if ctx.Err() != nil {
				return
			}
			r = s.settled(ctx, Found(r, m, found, err, s.o.Now()), m)
		}
	}
}

// settled saves a row until that works: a message that was made is never sent
// again because it could not be written down.
func (s *Service) settled(ctx context.Context, r Row, m surface.Message) Row {
	for {
		written, ok := s.save(ctx, r, m)
		if ok || ctx.Err() != nil {
			return written
		}
		s.pause(ctx, retryPause)
	}
}

// save writes how a row is after it was worked on, and returns it as it is
// kept then.
func (s *Service) save(ctx context.Context, r Row, m surface.Message) (written Row, ok bool) {
	err := s.o.DB.Update(ctx, func(tx *db.Tx) error {
		now, err := s.o.Table.Row(tx, r.Key)
		if err != nil {
			return err
		}
		if written = Merge(r, now); now.State.Final() {
			return nil
		}
		if wanted, err := s.wanted(tx, written); err != nil {
			return err
		} else if !wanted {
			written = Withdraw(now)
		}
		return s.write(tx, written, m)
	})
	switch {
	case err == nil && (written.State == Failed || written.State == Expired) && !written.Withdrawn:
		s.o.Logger.WarnContext(ctx, "a message was not sent", "key", r.Key, "state", written.State, "reason", written.Reason, "session_id", r.SessionID, "request_id", r.RequestID)
	case err != nil && ctx.Err() == nil:
		s.o.Logger.ErrorContext(ctx, "the outbox cannot be written", "key", r.Key, "error", err)
	}
	return written, err == nil
}

// wanted reports whether a row that is about to be sent still is to be.
func (s *Service) wanted(tx *db.Tx, r Row) (bool, error) {
	wanted := s.o.Wanted[owner(r)]
	if r.State != Sending || wanted == nil {
		return true, nil
	}
	is, err := wanted(tx, r)
	if db.IsDamaged(err) {
		s.o.Logger.Error("whoever planned a message cannot be asked about it, so it is not sent", "key", r.Key, "error", err)
		return false, nil
	}
	return is, err
}

// owner is who planned a row.
func owner(r Row) string {
	name, _, _ := strings.Cut(r.Key, ":")
	return name
}

// write keeps a row, and for an end calls the hook of its owner.
func (s *Service) write(tx *db.Tx, r Row, m surface.Message) error {
	if err := s.o.Table.Save(tx, r); err != nil || !r.State.Final() {
		return err
	}
	tx.AfterCommit(func() { s.tell(r.Key) })
	hook := s.o.Hooks[owner(r)]
	if hook == nil {
		return nil
	}
	err := hook(tx, r, m)
	if db.IsDamaged(err) {
		// Its owner cannot be told, however often that is tried; the row has ended
		// all the same, and those behind it in the channel have their turn.
		s.o.Logger.Error("whoever planned a message cannot be told what became of it", "key", r.Key, "state", r.State, "error", err)
		return nil
	}
	return err
}

func (s *Service) call(ctx context.Context, r Row) (surface.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.o.Adapter.Send(ctx, r.Send)
}

func (s *Service) find(ctx context.Context, r Row) (surface.Message, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.o.Adapter.FindNonce(ctx, r.Send.ChannelID, r.Send.Nonce, time.UnixMilli(r.CreatedAt).Add(-nonceMargin))
}

func (s *Service) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
