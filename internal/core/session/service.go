package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

const (
	// Group is the runner's group on cmd.request.
	Group = "runner"

	// DefaultMaxActive is how many sessions work side by side; more wait.
	DefaultMaxActive = 1024
	// DefaultRetries is how often a failed model call is repeated.
	DefaultRetries = 5

	// drainTime is how long runs may take to stop when the service does; with
	// what the listener takes before, a stop stays under ten seconds.
	drainTime = 6 * time.Second
	// recordTime bounds the last record of a run.
	recordTime = 5 * time.Second
	// maxCharged is how many crashes a step may be taken up after.
	maxCharged = 3
)

// Options are what a service is made of. DB, Bus, Store and Model are needed.
type Options struct {
	DB    *db.DB
	Bus   bus.Bus
	Store Store
	// Model returns the model that a session's next request uses.
	Model     func(ctx context.Context, sessionID string) (llm.Model, error)
	Tools     []tool.Tool
	Workspace string
	// Settings are those of the beginning.
	Settings Settings

	// Retries is how often a failed model call is repeated: 0 means
	// DefaultRetries, less means never.
	Retries int
	Backoff func(retry int) time.Duration

	// ResolveBlob returns the bytes of a "blob:sha256:…" reference.
	ResolveBlob func(ref string) ([]byte, error)
	// MaxActive is how many sessions work side by side.
	MaxActive int
	// Shown reports whether a relay shows the output of a client's requests: it
	// is told when they start. Nil means none does.
	Shown func(client string) bool
	// Title names a session that is made because somebody said something in it;
	// nil, and an empty title, leave that to the first words.
	Title func(q db.Queryer, client, sessionID string) string
	// Instructions makes the model's instructions from the operator's; nil
	// leaves those as they are.
	Instructions func(operators, client string) string
	// Account returns the session whose limit and count the work of a session
	// belongs to, or "" for its own; nil means that each has its own.
	Account func(q db.Queryer, sessionID string) (string, error)
	// Unattended reports whether nobody answers in the sessions of a client: a
	// request there that reaches a limit ends. Nil means that somebody does.
	Unattended func(client string) bool
	// Ended, when set, is told of each request that ends, in the transaction
	// that ends it. An error of it keeps the request from ending.
	Ended func(tx *db.Tx, r Request) error
	// Allow, when set, is asked before each model call whether the request may
	// go on; more is what it has used beyond its records. A refusal ends it.
	Allow func(ctx context.Context, requestID, sessionID string, more chat.Usage) (*Refusal, error)
	// Observe, when set, is told of each run; the run goes on in the context
	// that it returns, and its end is told to the function.
	Observe func(ctx context.Context, r RunInfo) (context.Context, func(err error))
	Logger  *slog.Logger
	Now     func() time.Time
}

// Refusal ends a request that may not go on.
type Refusal struct {
	// Reason is what people read. A quiet one says it only to those who look:
	// they were told elsewhere.
	Reason string
	Quiet  bool
	// Drop are requests that wait in the session and may not begin either.
	Drop       []string
	DropReason string
}

// RunInfo says what a run works on.
type RunInfo struct {
	RequestID, SessionID, Client string
	// TraceParent is that of the message that started the request, or "".
	TraceParent string
}

// Settings are what may change while the service runs. The limits hold at
// once; of the rest a request keeps what it started with.
type Settings struct {
	System string
	Limits Limits
	// ToolTimeout bounds a tool call; 0 means that only the tools do.
	ToolTimeout time.Duration
	// CompactAt is as in [agent.Config].
	CompactAt float64
}

// Service is the runner.
type Service struct {
	opt      Options
	settings atomic.Pointer[Settings]
	// streams counts live outputs; it paces what each of them publishes.
	streams atomic.Int64
	flow    *outflow

	runCtx context.Context
	wg     sync.WaitGroup
	alarms alarms
	day    daySpent

	// mu guards what follows; it is never held during I/O.
	mu       sync.Mutex
	stopping bool
	runs     map[string]*run // by request
	held     []string        // sessions that wait for room, in order
}

// New returns a service that does nothing until [Service.Run].
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxActive <= 0 {
		o.MaxActive = DefaultMaxActive
	}
	switch {
	case o.Retries == 0:
		o.Retries = DefaultRetries
	case o.Retries < 0:
		o.Retries = 0
	}
	s := &Service{opt: o, runs: map[string]*run{}, alarms: alarms{timers: map[string]*time.Timer{}}, stopping: true}
	s.Configure(o.Settings)
	s.flow = newOutflow(s)
	return s
}

// Configure replaces the settings.
func (s *Service) Configure(to Settings) { s.settings.Store(&to) }

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{
		Topic: event.TopicCmdRequest, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true,
		Types: []event.Type{event.CmdRequestMessage, event.CmdRequestCancel},
	}
}

// Declare makes the runner's group exist; call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	if err := s.opt.Bus.Declare(ctx, s.subscription()); err != nil {
		return fmt.Errorf("declare runner: %w", err)
	}
	return nil
}

// Run takes up what was running when the process stopped, then handles
// commands until ctx ends. It returns when every run has stopped, at the
// latest six seconds later; the next Run takes them up.
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

	s.wg.Go(func() { s.flow.run(runCtx) })
	err := s.takeUpAll(ctx)
	if err == nil {
		err = s.opt.Bus.Subscribe(ctx, s.subscription(), s.handle)
	}
	stop()
	s.alarms.stopAll()
	if !s.stopped(drainTime) {
		s.opt.Logger.Error("runs did not stop in time", "active", s.Active())
	}
	return err
}

func (s *Service) stopped(within time.Duration) bool {
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

// Active is how many requests run in this process.
func (s *Service) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// Works reports whether a request runs in this process.
func (s *Service) Works(requestID string) bool { return s.running(requestID) != nil }

// handle takes one command into its session, in one transaction with the
// delivery's commit.
func (s *Service) handle(ctx context.Context, d bus.Delivery) error {
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	// What it writes follows from a durable event: should a power cut take it, the
	// event is delivered again. What the run does next is synced before it counts.
	return s.changeIn(ctx, s.opt.DB.UpdateRelaxed, d.Headers.SessionID(), func(c *change) error {
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

// full says whether another run has to wait.
func (s *Service) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs) >= s.opt.MaxActive
}

func (s *Service) othersWait() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}

// hold remembers that a session has work and no run.
func (s *Service) hold(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.held, sessionID) {
		s.held = append(s.held, sessionID)
	}
	if len(s.runs) < s.opt.MaxActive && !s.stopping {
		s.wg.Go(s.fill)
	}
}

// fill starts held work while there is room.
func (s *Service) fill() {
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
		err := s.change(ctx, sessionID, func(c *change) error { return c.decide(Room{}) })
		if err != nil && ctx.Err() == nil {
			s.opt.Logger.Error("start waiting request", "session_id", sessionID, "error", err)
			if !pause(ctx, time.Second) {
				return
			}
			s.mu.Lock()
			s.held = append(s.held, sessionID)
			s.mu.Unlock()
		}
	}
}

// register makes a run known within the transaction that starts it, so that
// what is committed later finds it, and launches it behind the commit.
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
		s.wg.Go(r.work)
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

func (s *Service) running(requestID string) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[requestID]
}

// pause waits and reports whether ctx is still going.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isCancelled(err error) bool { return errors.Is(err, agent.ErrCancelled) }
