package clock

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// maxQueued bounds the waiting events of a timer.
	maxQueued = 10
	// maxSleep bounds one sleep, to notice a clock that was set and a machine that
	// slept.
	maxSleep = time.Minute
	// retryPause is the pause before a slot that could not be saved is retried.
	retryPause = time.Second
)

// TimerStore keeps the states of timers. Package store implements it.
type TimerStore interface {
	TimerState(q db.Queryer, name string) (State, error)
	SetTimerState(tx *db.Tx, name string, s State) error
	// KeepTimers removes all timers that are not listed.
	KeepTimers(tx *db.Tx, names []string) error
}

// Intake publishes events of sources; see [environment.Intake].
type Intake interface {
	Publish(ctx context.Context, from environment.SourceID, queue int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (published bool, err error)
}

// Options configure a [Service].
type Options struct {
	DB     *db.DB
	Timers TimerStore
	Intake Intake
	Logger *slog.Logger
	Now    func() time.Time
}

// Service fires timers.
type Service struct {
	o      Options
	timers atomic.Pointer[[]Timer]
	// wakeup wakes Run. It holds one signal, because a second would add nothing.
	wakeup chan struct{}
}

// New returns a service without timers.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, wakeup: make(chan struct{}, 1)}
	s.timers.Store(&[]Timer{})
	return s
}

// Set replaces the timers.
func (s *Service) Set(timers []Timer) {
	timers = slices.Clone(timers)
	s.timers.Store(&timers)
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// Run fires the timers until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	kept := false
	for {
		var timer *time.Timer
		var due <-chan time.Time // nil blocks forever
		if pause := s.fireAll(ctx, &kept); pause > 0 {
			timer = time.NewTimer(pause)
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-s.wakeup:
			kept = false
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// fireAll fires the slots that are due and returns the time until the next, zero for
// never. kept reports whether the removed timers are gone from the store.
func (s *Service) fireAll(ctx context.Context, kept *bool) time.Duration {
	timers := *s.timers.Load()
	if !*kept {
		if err := s.removeOldTimers(ctx, timers); err != nil {
			s.warn(ctx, "cannot remove old timers from the store", err)
			return retryPause
		}
		*kept = true
	}
	pause := time.Duration(0)
	for _, t := range timers {
		wait := retryPause
		if next, err := s.fire(ctx, t); err != nil {
			s.warn(ctx, "cannot fire a timer; trying again", err, "timer", t.Name)
		} else if next.IsZero() {
			continue
		} else {
			wait = min(max(next.Sub(s.o.Now()), time.Millisecond), maxSleep)
		}
		if pause == 0 || wait < pause {
			pause = wait
		}
	}
	return pause
}

func (s *Service) removeOldTimers(ctx context.Context, timers []Timer) error {
	names := make([]string, len(timers))
	for i, t := range timers {
		names[i] = t.Name
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error { return s.o.Timers.KeepTimers(tx, names) })
}

func (s *Service) warn(ctx context.Context, what string, err error, args ...any) {
	if ctx.Err() == nil {
		s.o.Logger.WarnContext(ctx, what, append(args, "error", err)...)
	}
}

// fire fires the slot of a timer that is due, and returns the next slot.
func (s *Service) fire(ctx context.Context, t Timer) (next time.Time, err error) {
	var before State
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		before, err = s.o.Timers.TimerState(q, t.Name)
		return err
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read timer: %w", err)
	}
	now := s.o.Now()
	next = t.Schedule.Next(now)
	after, effects := Decide(before, Checked{t}, now)
	save := func(tx *db.Tx) (bool, error) { return true, s.o.Timers.SetTimerState(tx, t.Name, after) }
	for _, effect := range effects {
		switch effect := effect.(type) {
		case Fire:
			e, err := firedEvent(t, effect.Slot, now)
			if err != nil {
				return time.Time{}, err
			}
			_, err = s.o.Intake.Publish(ctx, environment.SourceID{Kind: environment.SourceTimer, Name: t.Name}, maxQueued, e, save)
			if fault.KindOf(err) != fault.RateLimited {
				return next, err
			}
			// The intake has dropped and counted it. A retry would not help.
		}
	}
	if after == before {
		return next, nil
	}
	return next, s.o.DB.Update(ctx, func(tx *db.Tx) error { _, err := save(tx); return err })
}

// Payload is the payload of a timer.fired.
type Payload struct {
	Name string `json:"name"`
	// Slot is the time of the slot, in the timer's zone.
	Slot string `json:"slot"`
	// Late reports that the slot passed while the process was down.
	Late bool `json:"late,omitempty"`
}

func firedEvent(t Timer, slot, now time.Time) (event.EnvEvent, error) {
	raw, err := json.Marshal(Payload{Name: t.Name, Slot: slot.Format(time.RFC3339), Late: now.Sub(slot) > Grace})
	if err != nil {
		return event.EnvEvent{}, fmt.Errorf("encode timer: %w", err)
	}
	return event.EnvEvent{
		ID: fmt.Sprintf("timer:%s:%d", t.Name, slot.Unix()), Type: event.TimerFired, Payload: raw,
		Metadata: event.EnvMetadata{EnvName: t.Name, Source: "env"},
	}, nil
}
