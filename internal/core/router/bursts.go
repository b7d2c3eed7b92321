package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/delay"
)

const (
	// gateLimit bounds one call of the gate's model.
	gateLimit = 2500 * time.Millisecond
	// maxGates bounds how many bursts are judged concurrently.
	maxGates = 8
	// maxUnreadable is how many answers of the gate in a row may be unreadable before
	// bursts are forwarded without it, until it gives a verdict again.
	maxUnreadable = 2
	// burstRetry is the wait after a transaction that failed.
	burstRetry = time.Second
)

// bursts are the sessions with a burst that waits or is being judged.
type bursts struct {
	changed chan struct{}

	mu sync.Mutex
	// waiting has one entry per session in which people talk within one debounce.
	waiting map[string]State
}

func newBursts() *bursts {
	return &bursts{changed: make(chan struct{}, 1), waiting: map[string]State{}}
}

func (b *bursts) follow(sessionID string, s State) {
	b.mu.Lock()
	if s.Due == 0 && len(s.Gating) == 0 {
		delete(b.waiting, sessionID)
	} else {
		b.waiting[sessionID] = s
	}
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default: // a wake-up is pending
	}
}

func (b *bursts) all() map[string]State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.waiting)
}

// watchBursts forwards bursts when they are due and asks the gate, until ctx
// ends. Without a burst there is no timer.
func (s *Service) watchBursts(ctx context.Context) error {
	var found map[string]State
	if err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		found, err = s.o.Table.RouterBursts(q, s.o.Platform)
		return err
	}); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("load bursts: %w", err)
	}
	for session, state := range found {
		s.bursts.follow(session, state)
	}
	var gates errgroup.Group
	defer func() { _ = gates.Wait() }() // judge logs its own errors
	gates.SetLimit(maxGates)
	judged := make(chan string)
	judging := map[string]bool{}
	for {
		var next time.Duration = -1
		for session, state := range s.bursts.all() {
			if len(state.Gating) > 0 {
				if !judging[session] && gates.TryGo(func() error {
					s.judge(ctx, session, state.Gating)
					select {
					case judged <- session:
					case <-ctx.Done():
					}
					return nil
				}) {
					judging[session] = true
				}
				continue
			}
			now := s.o.Now()
			wait := time.UnixMilli(state.Due).Sub(now)
			if wait <= 0 || state.First > now.UnixMilli() { // the clock was set back: Decide restarts the wait
				wait = s.releaseBurst(ctx, session)
			}
			if wait > 0 && (next < 0 || wait < next) {
				next = wait
			}
		}
		var timer <-chan time.Time
		if next >= 0 {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case session := <-judged:
			delete(judging, session)
		case <-s.bursts.changed:
		case <-timer:
		}
	}
}

// releaseBurst decides about a burst that is due. It returns the wait before the
// next attempt, or 0 if none is needed.
func (s *Service) releaseBurst(ctx context.Context, session string) time.Duration {
	err := s.o.DB.Update(ctx, func(tx *db.Tx) error {
		in, err := s.session(tx, session)
		if err != nil {
			return err
		}
		closed, err := s.closed(tx, in)
		if err != nil {
			return err
		}
		return s.decide(tx, session, Due{s.requestID(session, "b"+s.o.NewID()), in.Kind == surface.Direct, closed}, nil)
	})
	if err != nil && ctx.Err() == nil {
		s.o.Logger.ErrorContext(ctx, "cannot forward a burst", "session_id", session, "error", err)
		return burstRetry
	}
	return 0
}

// noteUnreadable reports an answer of the gate that cannot be read, and returns
// whether the burst is forwarded: a gate that never gives a verdict would mute the
// channels without anybody noticing.
func (s *Service) noteUnreadable(ctx context.Context, session string, err error) (forward bool) {
	forward = s.unreadable.Add(1) > maxUnreadable
	s.o.Logger.WarnContext(ctx, "the answer of the gate's model cannot be read", "session_id", session, "forwarded", forward, "error", err)
	s.reportNoVerdict(forward)
	return forward
}

func (s *Service) reportNoVerdict(forwarded bool) {
	if s.o.NoVerdict != nil {
		s.o.NoVerdict(forwarded)
	}
}

// judge asks the gate about a burst and decides with its verdict. An error, an
// unclear verdict, and an exhausted budget mean no.
func (s *Service) judge(ctx context.Context, session string, ids []string) {
	var messages []chat.Message
	var exhausted string
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		undelivered, err := s.undelivered(q, session, ids)
		if err != nil {
			return err
		}
		if messages, _, err = s.compose(q, session, Forward{MessageIDs: undelivered}); err == nil {
			exhausted, err = s.o.Budget.Exhausted(q, session)
		}
		return err
	})
	var v Verdict
	var took time.Duration
	asked := false
	gate := s.settings.Load().Gate
	switch {
	case err != nil || len(messages) == 0:
	case gate == nil: // switched off meanwhile
		v.Forward = true
	case exhausted != "":
		s.o.Logger.WarnContext(ctx, "skipping messages: the budget for the gate is exhausted", "session_id", session, "reason", exhausted)
	default:
		asked = true
		started := s.o.Now()
		limited, cancel := context.WithTimeout(ctx, gateLimit)
		v, err = gate(limited, messages)
		cancel()
		took = s.o.Now().Sub(started)
	}
	if ctx.Err() != nil {
		return // the next start asks again
	}
	forward := v.Forward && err == nil
	switch {
	case errors.Is(err, errUnreadable):
		forward = s.noteUnreadable(ctx, session, err)
	case err != nil:
		s.o.Logger.WarnContext(ctx, "skipping messages: the gate returned no verdict", "session_id", session, "error", err)
		if asked {
			s.reportNoVerdict(false)
		}
	case asked:
		s.unreadable.Store(0)
	}
	answer := Gated{RequestID: s.requestID(session, "b"+s.o.NewID()), Forward: forward}
	for ctx.Err() == nil {
		err := s.o.DB.Update(ctx, func(tx *db.Tx) error {
			if asked {
				if err := s.o.Budget.Spend(tx, session, v.Used, took); err != nil {
					return err
				}
			}
			return s.decide(tx, session, answer, nil)
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		s.o.Logger.ErrorContext(ctx, "cannot save the verdict of the gate", "session_id", session, "error", err)
		delay.Wait(ctx, burstRetry)
	}
}
