package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/agent"
	"lilac/internal/core/kernel"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

const (
	// Group is the runner's group on cmd.request.
	Group = "runner"

	// drainTime is how long runs may take to stop when the service stops. Together
	// with the HTTP listener's time, a shutdown stays below ten seconds.
	drainTime = 6 * time.Second
	// recordTime bounds the last write of a run.
	recordTime = 5 * time.Second
)

// Service is the runner.
type Service struct {
	opt      Options
	core     kernel.Core[*change, State, Input, Effect]
	settings atomic.Pointer[Settings]
	tools    toolSpecs
	// streams counts live outputs. The more there are, the less often each of them
	// publishes.
	streams   atomic.Int64
	publisher *publisher

	runCtx    context.Context
	startedAt time.Time // when Run was called
	wg        sync.WaitGroup
	alarms    alarms
	day       daySpent
	turns     turns

	// mu guards the fields below; it is never held during I/O.
	mu       sync.Mutex
	stopping bool
	runs     map[string]*run // by request
	held     []string        // sessions that wait for a free slot, oldest first
}

// New returns a service; [Service.Run] starts it.
func New(o Options) *Service {
	o = o.withDefaults()
	s := &Service{opt: o, runs: map[string]*run{}, alarms: alarms{timers: map[string]*time.Timer{}}, stopping: true}
	s.turns = turns{svc: s, waiting: map[string]bool{}}
	s.tools = newToolSpecs(o.Tools)
	s.Configure(o.Settings)
	s.publisher, s.core = newPublisher(s), s.newCore()
	return s
}

// Configure replaces the settings.
func (s *Service) Configure(to Settings) { s.settings.Store(&to) }

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{
		Topic: event.TopicCmdRequest, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true,
		Types: []event.Type{event.CmdRequestMessage, event.CmdRequestCancel}, Reads: s.opt.Tables.announceReads,
	}
}

// Declare creates the runner's group on the bus. Call it before anything
// publishes.
func (s *Service) Declare(ctx context.Context) error {
	if err := s.opt.Bus.Declare(ctx, s.subscription()); err != nil {
		return fmt.Errorf("declare runner: %w", err)
	}
	return nil
}

// Run resumes the requests that were active when the process stopped, then handles
// commands until ctx ends. It returns when all runs have stopped, at most drainTime
// later. The next Run resumes them.
func (s *Service) Run(ctx context.Context) error {
	err := s.serve(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *Service) serve(ctx context.Context) error {
	if err := s.Declare(ctx); err != nil {
		return err
	}
	runCtx, drain := context.WithCancelCause(context.WithoutCancel(ctx))
	s.startedAt = time.Now()
	s.mu.Lock()
	s.runCtx, s.stopping = runCtx, false
	s.mu.Unlock()
	stop := func() {
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		drain(agent.ErrDrain)
	}
	unhook := context.AfterFunc(ctx, stop)
	defer unhook()

	s.wg.Go(func() { s.publisher.run(runCtx) })
	err := s.resumeAll(ctx)
	if err == nil {
		err = s.opt.Bus.Subscribe(ctx, s.subscription(), s.handle)
	}
	stop()
	s.alarms.stopAll()
	if !s.waitForRuns(drainTime) {
		s.opt.Logger.Error("runs did not stop in time", "active", s.Active())
	}
	return err
}

func (s *Service) waitForRuns(within time.Duration) bool {
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Active returns the number of runs in this process.
func (s *Service) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// IsRunning reports whether a request has a run in this process, or waits for its turn
// after an unclean stop.
func (s *Service) IsRunning(requestID string) bool {
	return s.runOf(requestID) != nil || s.turns.isWaiting(requestID)
}

// handle applies one command to its session, in the transaction that commits the
// delivery.
func (s *Service) handle(ctx context.Context, d bus.Delivery) error {
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	// The transaction need not be synced: the command is durable, and after a power
	// failure the bus delivers it again. The run syncs its own writes.
	ahead := func(tx *db.Tx) { s.opt.Tables.announceReads(tx, d.Event) }
	return s.changeIn(ctx, announcing(s.opt.DB.UpdateRelaxed, ahead), d.Headers.SessionID(), func(c *change) error {
		c.eventID, c.traceParent = d.ID, d.Headers[event.HeaderTraceParent]
		if d.Ack != nil {
			if err := d.Ack(c.tx); err != nil {
				return fmt.Errorf("commit delivery: %w", err)
			}
		}
		switch p := payload.(type) {
		case event.RequestMessage:
			return c.message(d.Event, p)
		case event.RequestCancel:
			return c.decide(Cancel{RequestID: d.Headers.RequestID(), CancelQueued: p.CancelQueued, Reason: p.Reason, AnyActive: p.AnyActive})
		}
		return nil
	})
}

// atCapacity reports whether another run has to wait.
func (s *Service) atCapacity() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs) >= s.opt.MaxActive
}

func (s *Service) hasHeldSessions() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}

// holdSession queues a session that has work and no run.
func (s *Service) holdSession(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.held, sessionID) {
		s.held = append(s.held, sessionID)
	}
	if len(s.runs) < s.opt.MaxActive && !s.stopping {
		s.wg.Go(s.startHeld)
	}
}

// startHeld starts held sessions while slots are free.
func (s *Service) startHeld() {
	for {
		s.mu.Lock()
		if len(s.held) == 0 || len(s.runs) >= s.opt.MaxActive || s.stopping {
			s.mu.Unlock()
			return
		}
		sessionID := s.held[0]
		s.held = slices.Delete(s.held, 0, 1)
		ctx := s.runCtx
		s.mu.Unlock()
		err := s.change(ctx, sessionID, func(c *change) error { return c.decide(SlotFree{}) })
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("cannot start a held session", "session_id", sessionID, "error", err)
			if !delay.Wait(ctx, time.Second) {
				return
			}
			s.mu.Lock()
			s.held = append(s.held, sessionID)
			s.mu.Unlock()
		}
	}
}

// register adds a run within the transaction that starts it, so that later
// transactions find it, and starts its goroutine after the commit.
func (s *Service) register(tx *db.Tx, r *run) {
	s.mu.Lock()
	before := s.runs[r.requestID]
	s.runs[r.requestID] = r
	s.mu.Unlock()
	tx.AfterRollback(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.cancel(nil)
		if delete(s.runs, r.requestID); before != nil {
			s.runs[r.requestID] = before
		}
	})
	tx.AfterCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopping {
			r.cancel(nil)
			delete(s.runs, r.requestID)
			return
		}
		s.wg.Go(r.runToEnd)
	})
}

func (s *Service) unregister(r *run) {
	s.mu.Lock()
	if s.runs[r.requestID] == r {
		delete(s.runs, r.requestID)
	}
	s.mu.Unlock()
	r.cancel(nil)
}

// spawn runs fn in a goroutine that Run waits for, unless the service is stopping.
func (s *Service) spawn(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopping {
		s.wg.Go(fn)
	}
}

func (s *Service) runOf(requestID string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[requestID]
}

func isCancelled(err error) bool { return errors.Is(err, agent.ErrCancelled) }
