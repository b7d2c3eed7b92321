package mark

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/kernel"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// maxWorkers bounds the channels in which marks are changed at a time.
	maxWorkers = 8
	// maxPending bounds the rows that are read at a time.
	maxPending = 200
	// callLimit bounds one call of the platform.
	callLimit = 20 * time.Second
	// longestRest is how long Run rests if nothing happens.
	longestRest = time.Minute
	// storeRetry is the wait after a failed transaction.
	storeRetry = time.Second
)

// Table stores the marks. Package store implements it.
type Table interface {
	// Mark returns the zero Mark for an unknown key.
	Mark(q db.Queryer, key string) (Mark, error)
	// SaveMark writes the mark of a key, or deletes it if it is empty.
	SaveMark(tx *db.Tx, key string, m Mark) error
	// PendingMarks returns marks for which the platform has to be called, the
	// oldest first.
	PendingMarks(q db.Queryer, platform string, limit int) ([]Mark, error)
}

// Adapter changes reactions on the platform.
type Adapter interface {
	Platform() string
	React(ctx context.Context, ref event.MessageRef, emoji string) error
	Unreact(ctx context.Context, ref event.MessageRef, emoji string) error
	// Tell sends a user a private message. A nonce keeps it from being sent twice.
	Tell(ctx context.Context, userID, text, nonce string) error
}

// Options configure a [Service].
type Options struct {
	DB      *db.DB
	Table   Table
	Adapter Adapter
	Logger  *slog.Logger
	// Untold is called in the transaction that gives up a notice, because neither the mark nor
	// the private message could be sent; it may be nil.
	Untold func(tx *db.Tx, n Notice, reason error) error
}

// Service shows the marks of one platform.
type Service struct {
	o    Options
	wake chan struct{}
	core kernel.Core[string, Mark, Input, Effect]
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{o: o, wake: make(chan struct{}, 1)}
	s.core = kernel.Core[string, Mark, Input, Effect]{
		Load:   func(tx *db.Tx, key string) (Mark, error) { return o.Table.Mark(tx, key) },
		Decide: Decide,
		Save:   func(tx *db.Tx, key string, _, after Mark) error { return o.Table.SaveMark(tx, key, after) },
		Carry:  s.carry,
		Wake: func(_ string, _, after Mark) {
			if after.Pending() {
				s.notify()
			}
		},
	}
	return s
}

func (s *Service) carry(tx *db.Tx, key string, _ Mark, e Effect) error {
	lost, ok := e.(Lost)
	if !ok {
		return fmt.Errorf("unknown effect %T", e)
	}
	s.o.Logger.Info("a mark could not be shown", "mark", key, "error", lost.Err)
	if lost.Notice == nil || s.o.Untold == nil {
		return nil
	}
	return s.o.Untold(tx, *lost.Notice, lost.Err)
}

func (s *Service) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Show shows a mark on a message. If the platform refuses it, the notice is sent
// instead, unless it is nil.
func (s *Service) Show(tx *db.Tx, ref event.MessageRef, emoji string, n *Notice) error {
	_, _, err := s.core.Apply(tx, Mark{Ref: ref, Emoji: emoji}.Key(), Wanted{Ref: ref, Emoji: emoji, Notice: n})
	return err
}

// Tell sends a user a notice without a mark, once. ref says what it is about; without a
// message, MessageID is another id that is unique in the channel.
func (s *Service) Tell(tx *db.Tx, ref event.MessageRef, n Notice) error {
	_, _, err := s.core.Apply(tx, Mark{Ref: ref, Emoji: noticeKey + n.UserID}.Key(), Noticed{Ref: ref, Notice: n})
	return err
}

// nonceOf returns a nonce that platforms accept: Discord's limit is 25 characters.
func nonceOf(m Mark) string {
	id := m.Ref.MessageID
	return "mark" + id[max(0, len(id)-20):]
}

// Remove removes a mark from a message, which may have none.
func (s *Service) Remove(tx *db.Tx, ref event.MessageRef, emoji string) error {
	_, _, err := s.core.Apply(tx, Mark{Ref: ref, Emoji: emoji}.Key(), Withdrawn{})
	return err
}

// Run calls the platform for pending marks until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		rest, err := s.round(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "cannot change the marks on messages; retrying", "error", err)
			rest = storeRetry
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// round makes the calls that are due. It returns when the next ones are.
func (s *Service) round(ctx context.Context) (rest time.Duration, err error) {
	var pending []Mark
	if err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		pending, err = s.o.Table.PendingMarks(q, s.o.Adapter.Platform(), maxPending)
		return err
	}); err != nil {
		return 0, fmt.Errorf("load marks: %w", err)
	}
	rest = longestRest
	channels := map[string][]Mark{}
	for _, m := range pending {
		if wait := time.Until(time.UnixMilli(m.RetryAt)); wait > 0 {
			rest = min(rest, wait)
			continue
		}
		channels[m.Ref.ChannelID] = append(channels[m.Ref.ChannelID], m)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(maxWorkers)
	for _, marks := range channels {
		work.Go(func() error {
			for _, m := range marks {
				if err := s.call(ctx, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return 0, err
	}
	if len(channels) > 0 {
		rest = 0 // there may be more
	}
	return rest, nil
}

// call brings the platform to the state of one mark and stores the outcome.
func (s *Service) call(ctx context.Context, m Mark) error {
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	in := Called{Added: m.Wanted, Noticed: m.noticeDue()}
	switch {
	case in.Noticed:
		in.Err = s.o.Adapter.Tell(limited, m.Notice.UserID, m.Notice.Text, nonceOf(m))
	case m.Wanted:
		in.Err = s.o.Adapter.React(limited, m.Ref, m.Emoji)
	default:
		if in.Err = s.o.Adapter.Unreact(limited, m.Ref, m.Emoji); fault.KindOf(in.Err) == fault.NotFound {
			in.Err = nil // the message or the reaction is gone
		}
	}
	if ctx.Err() != nil {
		return ctx.Err() // the next start repeats the call, which changes nothing then
	}
	return s.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		_, _, err := s.core.Apply(tx, m.Key(), in)
		return err
	})
}
