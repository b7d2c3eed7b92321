package outbox

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/kernel"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

const (
	// maxChannels bounds the concurrent workers. The rate limits of platforms are
	// far below it.
	maxChannels = 64
	// maxWaiting bounds the channels that one query returns.
	maxWaiting = 1000
	// callLimit bounds one call. After it, the outcome is unknown.
	callLimit = 30 * time.Second
	// nonceMargin allows for a platform's clock that is behind ours.
	nonceMargin = time.Minute
	// longestPause is the longest time between two queries for unfinished rows.
	longestPause = time.Minute
	// retryPause is the wait after a failed transaction.
	retryPause = time.Second
	// defaultTTL is how long a row is worth sending.
	defaultTTL = 15 * time.Minute
	// nonceBytes is the longest nonce that platforms accept (Discord: 25).
	nonceBytes = 25
)

// Outbox is the interface that other cores use. [Service] implements it.
type Outbox interface {
	// Plan writes a row in the caller's transaction. The row is sent soon after the
	// commit, in the order of planning within a channel.
	Plan(tx *db.Tx, r Row) error
	// Withdraw withdraws a row in the caller's transaction. A row that is in flight
	// may still arrive, but is not sent again.
	Withdraw(tx *db.Tx, key string) error
	// Wait waits until the row is final and returns it.
	Wait(ctx context.Context, key string) (Row, error)
}

// Table stores the rows. Package store implements it.
type Table interface {
	// Plan inserts a row. It returns false, and changes nothing, if the key exists.
	Plan(tx *db.Tx, r Row) (fresh bool, err error)
	Save(tx *db.Tx, r Row) error
	// Row returns a fault.NotFound for an unknown key.
	Row(q db.Queryer, key string) (Row, error)
	// Unfinished returns the first unfinished row of each channel, oldest first.
	Unfinished(q db.Queryer, platform string, limit int) ([]Row, error)
	// ByMessage returns the row that created a message, or a fault.NotFound.
	ByMessage(q db.Queryer, platform, channelID, messageID string) (Row, error)
	// Trim deletes a bounded number of final rows that are older than before.
	Trim(tx *db.Tx, before time.Time) (more bool, err error)
}

// Platform sends messages. Its adapter implements it.
type Platform interface {
	Platform() string
	Send(ctx context.Context, s surface.Send) (surface.Message, error)
	// FindNonce searches for a message that an earlier Send created after notBefore.
	FindNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error)
}

// Wanted reports whether a row is still to be sent, in the transaction before
// each call. It is for owners that could not withdraw the row, because the
// platform was switched off then.
type Wanted func(tx *db.Tx, r Row) (bool, error)

// OnSent runs in the transaction in which a row becomes final, so that its owner
// records the message's id exactly when it becomes known. The part of the key
// before the first colon names the owner.
type OnSent func(tx *db.Tx, r Row, m surface.Message) error

// Options configure a [Service].
type Options struct {
	DB      *db.DB
	Table   Table
	Adapter Platform
	// Hooks has the hooks of the owners, by their name.
	Hooks map[string]OnSent
	// Wanted has the Wanted functions, by owner. Rows of other owners are wanted.
	Wanted map[string]Wanted
	Logger *slog.Logger
}

// Service sends the rows of one platform.
type Service struct {
	o    Options
	core kernel.Core[string, Row, Input, Effect]
	wake chan struct{}

	mu sync.Mutex
	// waiters has, by key, the channels to close when the row is final.
	waiters map[string][]chan struct{}
}

var _ Outbox = (*Service)(nil)

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{o: o, wake: make(chan struct{}, 1), waiters: map[string][]chan struct{}{}}
	s.core = kernel.Core[string, Row, Input, Effect]{
		Load:   func(tx *db.Tx, key string) (Row, error) { return o.Table.Row(tx, key) },
		Decide: Decide,
		Save:   s.save,
		Carry:  s.carry,
		Wake: func(key string, _, after Row) {
			if after.State.Final() {
				s.wakeWaiters(key)
			}
		},
	}
	return s
}

// Plan implements [Outbox]. The defaults are: created now, a time to live of 15
// minutes, and a nonce that is derived from the key.
func (s *Service) Plan(tx *db.Tx, r Row) error {
	if r.Key == "" || r.Send.ChannelID == "" {
		return fault.New(fault.Invalid, "An outgoing message needs a key and a channel.")
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
		return nil // never planned, or trimmed after its end
	}
	if err == nil {
		_, _, err = s.core.ApplyTo(tx, key, r, Withdrawn{})
	}
	return err
}

func (s *Service) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Wait implements [Outbox].
func (s *Service) Wait(ctx context.Context, key string) (row Row, err error) {
	final := make(chan struct{})
	s.mu.Lock()
	s.waiters[key] = append(s.waiters[key], final)
	s.mu.Unlock()
	defer s.removeWaiter(key, final)
	for {
		err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
			row, err = s.o.Table.Row(q, key)
			return err
		})
		if err != nil || row.State.Final() {
			return row, err
		}
		select {
		case <-final:
		case <-ctx.Done():
			return row, fmt.Errorf("wait for outbox row %s: %w", key, ctx.Err())
		}
	}
}

func (s *Service) removeWaiter(key string, waiter chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(s.waiters[key], func(w chan struct{}) bool { return w == waiter })
	if s.waiters[key] = left; len(left) == 0 {
		delete(s.waiters, key)
	}
}

func (s *Service) wakeWaiters(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters[key] {
		close(w)
	}
	delete(s.waiters, key)
}

// Run sends rows until ctx ends. The next start searches for rows that are in
// flight then.
func (s *Service) Run(ctx context.Context) error {
	var work errgroup.Group
	defer func() { _ = work.Wait() }() // workers log their own errors
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
			s.o.Logger.ErrorContext(ctx, "cannot read the outbox", "error", err)
			later = retryPause
		}
		for _, r := range rows {
			channel := r.Send.ChannelID
			if busy[channel] {
				continue
			}
			// A channel that waits does not occupy a worker.
			now := time.Now()
			if until := waits(Decide(r, Due{}, now)); until > 0 {
				later = min(later, time.UnixMilli(until).Sub(now))
				continue
			}
			if len(busy) >= maxChannels {
				continue
			}
			busy[channel] = true
			work.Go(func() error {
				s.drive(ctx, r.Key)
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

// waits returns the time of a decision's Wait effect, or 0.
func waits(_ Row, effects []Effect) int64 {
	for _, e := range effects {
		if w, ok := e.(Wait); ok {
			return w.Until
		}
	}
	return 0
}

// drive works on a row until it is final or has to wait.
func (s *Service) drive(ctx context.Context, key string) {
	var in Input = Due{}
	for {
		r, effects := s.applyUntilSaved(ctx, key, in)
		if ctx.Err() != nil || r.State.Final() {
			return
		}
		in = Due{}
		for _, e := range effects {
			switch e.(type) {
			case Call:
				m, err := s.call(ctx, r)
				in = Called{m, err}
			case Search:
				m, found, err := s.search(ctx, r)
				in = Found{m, found, err}
			case Wait:
				return
			case Finish: // carried out in the transaction
			}
		}
		if ctx.Err() != nil {
			return // the outcome of the call is not known; the next start searches
		}
	}
}

// applyUntilSaved retries a decision until it is saved: a message that was created
// must not be sent again because its row could not be written.
func (s *Service) applyUntilSaved(ctx context.Context, key string, in Input) (r Row, effects []Effect) {
	for {
		err := s.o.DB.Update(ctx, func(tx *db.Tx) (err error) {
			r, effects, err = s.apply(tx, key, in)
			return err
		})
		if err == nil {
			if (r.State == Failed || r.State == Expired) && !r.Withdrawn {
				s.o.Logger.WarnContext(ctx, "message not sent", "key", key, "state", r.State, "reason", r.Reason, "session_id", r.SessionID, "request_id", r.RequestID)
			}
			return r, effects
		}
		if ctx.Err() != nil {
			return r, nil
		}
		s.o.Logger.ErrorContext(ctx, "cannot write the outbox row", "key", key, "error", err)
		if !delay.Wait(ctx, retryPause) {
			return r, nil
		}
	}
}

// apply makes one decision. It asks the owner of a planned row whether the row is
// still wanted.
func (s *Service) apply(tx *db.Tx, key string, in Input) (r Row, effects []Effect, err error) {
	if r, err = s.o.Table.Row(tx, key); err != nil {
		return r, nil, err
	}
	if _, ok := in.(Due); ok && r.State == Planned {
		wanted, err := s.wanted(tx, r)
		if err != nil {
			return r, nil, err
		}
		in = Due{Unwanted: !wanted}
	}
	return s.core.ApplyTo(tx, key, r, in)
}

func (s *Service) wanted(tx *db.Tx, r Row) (bool, error) {
	ask := s.o.Wanted[owner(r)]
	if ask == nil {
		return true, nil
	}
	wanted, err := ask(tx, r)
	if db.IsDamaged(err) {
		s.o.Logger.Error("message not sent: its owner's record is damaged", "key", r.Key, "error", err)
		return false, nil
	}
	return wanted, err
}

// owner returns the name of the package that planned a row.
func owner(r Row) string {
	name, _, _ := strings.Cut(r.Key, ":")
	return name
}

// save writes a row that has changed.
func (s *Service) save(tx *db.Tx, _ string, before, after Row) error {
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return s.o.Table.Save(tx, after)
}

// carry carries out the effects that belong to the transaction. The worker
// carries out the others after the commit.
func (s *Service) carry(tx *db.Tx, _ string, r Row, e Effect) error {
	switch e := e.(type) {
	case Call, Search, Wait:
		return nil
	case Finish:
		hook := s.o.Hooks[owner(r)]
		if hook == nil {
			return nil
		}
		err := hook(tx, r, e.Message)
		if db.IsDamaged(err) {
			// Retrying cannot repair the owner's record. The row is final all the same,
			// and the rows behind it in the channel are sent.
			s.o.Logger.Error("cannot report a message to its owner: the owner's record is damaged", "key", r.Key, "state", r.State, "error", err)
			return nil
		}
		return err
	default:
		return fmt.Errorf("unknown effect %T", e)
	}
}

func (s *Service) call(ctx context.Context, r Row) (surface.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.o.Adapter.Send(ctx, r.Send)
}

func (s *Service) search(ctx context.Context, r Row) (surface.Message, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.o.Adapter.FindNonce(ctx, r.Send.ChannelID, r.Send.Nonce, time.UnixMilli(r.CreatedAt).Add(-nonceMargin))
}
