package router

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

const (
	// gateLimit bounds how long the gate may think.
	gateLimit = 2500 * time.Millisecond
	// maxGates bounds how many bursts are judged side by side.
	maxGates = 8
	// burstRetry is the wait after a transaction that failed.
	burstRetry = time.Second
)

// bursts follows which sessions have a burst that waits.
type bursts struct {
	changed chan struct{}

	mu sync.Mutex
	// waiting has the sessions with a burst: at most as many as have people
	// talking within one debounce.
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
	default: // it is going to look anyway
	}
}

func (b *bursts) all() map[string]State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.waiting)
}

// watchBursts lets bursts go when they are due, and asks the gate, until ctx
// ends. Without a burst nothing ticks.
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
	defer func() { _ = gates.Wait() }() // they report by themselves
	gates.SetLimit(maxGates)
	judged := make(chan string)
	asked := map[string]bool{}
	for {
		var next time.Duration = -1
		for session, state := range s.bursts.all() {
			if len(state.Gating) > 0 {
				if !asked[session] && gates.TryGo(func() error {
					s.judge(ctx, session, state.Gating)
					select {
					case judged <- session:
					case <-ctx.Done():
					}
					return nil
				}) {
					asked[session] = true
				}
				continue
			}
			now := s.o.Now()
			wait := time.UnixMilli(state.Due).Sub(now)
			if wait <= 0 || state.First > now.UnixMilli() { // the clock was set back: the rules see to that
				wait = s.letGo(ctx, session)
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
			delete(asked, session)
		case <-s.bursts.changed:
		case <-timer:
		}
	}
}

// letGo runs the rules on a burst that is due; it returns when to try again,
// zero for not at all.
func (s *Service) letGo(ctx context.Context, session string) time.Duration {
	err := s.o.DB.Update(ctx, func(tx *db.Tx) error {
		return s.decide(tx, session, Due{RequestID: s.requestID(session, "b"+s.o.NewID())}, nil)
	})
	if err != nil && ctx.Err() == nil {
		s.o.Logger.ErrorContext(ctx, "a burst could not be forwarded", "session_id", session, "error", err)
		return burstRetry
	}
	return 0
}

// judge asks the gate about a burst and runs the rules on its answer. Anything
// but a clear yes is a no, and so is a budget that is used up.
func (s *Service) judge(ctx context.Context, session string, ids []string) {
	var messages []chat.Message
	var exhausted string
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		f := Forward{MessageIDs: ids}
		if f.MessageIDs, err = s.untold(q, session, f); err != nil {
			return err
		}
		if messages, _, err = s.compose(q, session, f); err == nil {
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
	case gate == nil: // it was switched off meanwhile
		v.Forward = true
	case exhausted != "":
		s.o.Logger.WarnContext(ctx, "the gate is not asked, so the messages are skipped", "session_id", session, "reason", exhausted)
	default:
		asked = true
		started := s.o.Now()
		limited, cancel := context.WithTimeout(ctx, gateLimit)
		v, err = gate(limited, messages)
		cancel()
		took = s.o.Now().Sub(started)
	}
	if ctx.Err() != nil {
		return // asked again after the start
	}
	if err != nil {
		s.o.Logger.WarnContext(ctx, "the gate could not judge, so the messages are skipped", "session_id", session, "error", err)
	}
	answer := Gated{RequestID: s.requestID(session, "b"+s.o.NewID()), Forward: v.Forward && err == nil}
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
		s.o.Logger.ErrorContext(ctx, "the gate's answer could not be written", "session_id", session, "error", err)
		select {
		case <-time.After(burstRetry):
		case <-ctx.Done():
		}
	}
}
