package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"lilac/internal/core/kernel"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// recordTime bounds one attempt to record the end of a task.
	recordTime = 10 * time.Second
	// stopTime bounds how long Stop waits for the end of a task.
	stopTime = 10 * time.Second
	// maxAnswer bounds a sub-agent's answer in an event, in bytes.
	maxAnswer = 32 << 10
)

// Options configure a [Service].
type Options struct {
	DB       *db.DB
	Store    Store
	Requests Requests
	Publish  Publish
	Commands Commands
	// CheckAgent reports why no task can be given to the configured agent with a name; nil means
	// that there are none.
	CheckAgent func(name string) error
	// Dir is the directory for the outputs of commands.
	Dir string
	// Limits returns the limits in force.
	Limits func() Limits
	// MaxDepth is how many events may cause each other.
	MaxDepth int
	Logger   *slog.Logger
	// CheckInterval is the interval of the checks for deadlines of sub-agents and for
	// progress; 0 means a second.
	CheckInterval time.Duration
	// Now returns the wall clock time; nil means time.Now.
	Now func() time.Time
	// ProgressInterval is the shortest time between two progress events of a task; 0
	// means ten seconds. It grows to a tenth of the task's age.
	ProgressInterval time.Duration
}

// Service runs tasks.
type Service struct {
	o    Options
	core kernel.Core[string, Task, Input, Effect]
	wg   sync.WaitGroup
	// wake wakes watch. It holds one signal, because a second would add nothing.
	wake chan struct{}

	// mu guards the fields below. It is never held during I/O.
	mu       sync.Mutex
	ctx      context.Context // of the commands; nil before Run
	stopping bool
	live     map[string]*runningTask
}

// runningTask is a running task of this process.
type runningTask struct {
	task Task
	// trackedSince is when this process began to track it.
	trackedSince time.Time
	// cancel, log, and done are set for commands.
	cancel context.CancelCauseFunc
	log    *outputLog
	done   chan struct{}
	// lastProgress and lastAmount are the time and the amount of the last progress
	// event.
	lastProgress time.Time
	lastAmount   int64
}

// New returns a service that runs nothing until [Service.Run].
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CheckAgent == nil {
		o.CheckAgent = func(name string) error { return fault.InvalidField("agent", "There is no agent %q.", name) }
	}
	if o.CheckInterval <= 0 {
		o.CheckInterval = time.Second
	}
	if o.ProgressInterval <= 0 {
		o.ProgressInterval = 10 * time.Second
	}
	s := &Service{o: o, wake: make(chan struct{}, 1), live: map[string]*runningTask{}}
	s.core = kernel.Core[string, Task, Input, Effect]{
		Load: s.load, Decide: Decide, Save: s.save, Carry: s.carryOut,
		Wake: func(id string, before, after Task) {
			if before.State == Running && after.State != Running {
				s.untrack(id)
			}
		},
	}
	return s
}

// Recover recovers the tasks that ran when the process ended: commands are lost, and
// sub-agents continue. Call it before anything can start a task.
func (s *Service) Recover(ctx context.Context) error {
	var running []Task
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		running, err = s.o.Store.RunningTasks(q, "")
		return err
	})
	if err != nil {
		return fmt.Errorf("list running tasks: %w", err)
	}
	for _, t := range running {
		if t.Kind == Agent {
			s.track(&runningTask{task: t, trackedSince: time.Now()})
			continue
		}
		if _, err := s.change(ctx, t.ID, Lost{readTail(s.outputDir(t.ID))}); err != nil {
			return fmt.Errorf("end lost task: %w", err)
		}
		s.o.Logger.InfoContext(ctx, "a background command was lost in a restart", "task_id", t.ID, "session_id", t.SessionID)
	}
	return nil
}

// Run runs commands until ctx ends. It then kills the running ones, which the next start
// reports as lost, and returns when all their processes have ended.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	s.watch(ctx)
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// IsRunning reports whether a task runs in this process.
func (s *Service) IsRunning(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id] != nil
}

// Running returns the number of running tasks.
func (s *Service) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live)
}

func (s *Service) track(l *runningTask) {
	s.mu.Lock()
	s.live[l.task.ID] = l
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // one signal is pending already
	}
}

func (s *Service) find(id string) *runningTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

func (s *Service) untrack(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}

// Start starts a task and returns when the start is durable. If a task with the key
// exists, Start returns that task, and fresh is false.
func (s *Service) Start(ctx context.Context, o Spec) (t Task, fresh bool, err error) {
	limits := s.o.Limits()
	if o.Command != "" {
		if err := s.o.Commands.Check(ctx, o); err != nil {
			return t, false, err
		}
	}
	if o.Agent != "" {
		if err := s.o.CheckAgent(o.Agent); err != nil {
			return t, false, err
		}
	}
	s.mu.Lock()
	ready := s.ctx != nil && !s.stopping
	s.mu.Unlock()
	if !ready {
		return t, false, fault.New(fault.Unavailable, "Lilac is stopping and cannot start tasks. Try again after the restart.")
	}
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		t, fresh, err = s.start(tx, o, limits)
		return err
	})
	return t, fresh, err
}

func (s *Service) start(tx *db.Tx, o Spec, limits Limits) (t Task, fresh bool, err error) {
	if o.Key != "" {
		t, err := s.o.Store.TaskByKey(tx, o.Key)
		if fault.KindOf(err) != fault.NotFound {
			return t, false, err
		}
	}
	in := Start{ID: strings.ToLower(ulid.Make().String()), Spec: o, Limits: limits, MaxDepth: s.o.MaxDepth}
	if in.Facts, err = s.facts(tx, o); err != nil {
		return t, false, err
	}
	t, effects, err := s.core.ApplyTo(tx, in.ID, Task{}, in)
	if err != nil {
		return t, false, err
	}
	for _, e := range effects {
		if r, is := e.(Refuse); is {
			return t, false, r.Err
		}
	}
	return t, true, nil
}

func (s *Service) facts(tx *db.Tx, o Spec) (out Facts, err error) {
	running, err := s.o.Store.RunningTasks(tx, "")
	if err != nil {
		return out, err
	}
	out.InAll = len(running)
	for _, t := range running {
		if t.SessionID == o.SessionID {
			out.InSession++
		}
	}
	if out.Depth, err = s.o.Requests.DepthOf(tx, o.RequestID); err != nil {
		return out, err
	}
	_, err = s.o.Store.TaskByChild(tx, o.SessionID)
	switch {
	case err == nil:
		out.Sub = true
	case fault.KindOf(err) != fault.NotFound:
		return out, err
	}
	return out, nil
}

// SessionPrefix is the prefix of the session ids of sub-agents.
const SessionPrefix = "sub-"

// IsChild reports whether a session belongs to a sub-agent.
func IsChild(sessionID string) bool { return strings.HasPrefix(sessionID, SessionPrefix) }

// publishPrompt starts the request of a sub-agent in a session of its own.
func publishPrompt(tx *db.Tx, t Task) error {
	e, err := event.New(event.Meta{
		ID: "task-" + t.ID + "/prompt", Time: tx.Now(), Headers: event.RequestHeaders(t.ChildRequest, t.ChildSession, Client),
	}, event.RequestMessage{Queue: event.Prompt, MessageID: t.ID, Grant: t.Grant, Agent: t.Agent, Messages: []chat.Message{chat.Text(chat.User, t.Prompt)}})
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

func publishCancel(tx *db.Tx, t Task) error {
	e, err := event.New(event.Meta{
		ID: "task-" + t.ID + "/cancel", Time: tx.Now(), Headers: event.RequestHeaders(t.ChildRequest, t.ChildSession, Client),
	}, event.RequestCancel{Reason: t.Reason, CancelQueued: true})
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

// follow tracks a task after the commit of its start, and then runs its command.
func (s *Service) follow(tx *db.Tx, t Task, limits Limits) {
	if t.Kind == Agent {
		tx.AfterCommit(func() { s.track(&runningTask{task: t, trackedSince: time.Now()}) })
		return
	}
	tx.AfterCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopping {
			return // the next start reports it as lost
		}
		ctx, cancel := context.WithCancelCause(s.ctx)
		l := &runningTask{task: t, trackedSince: time.Now(), cancel: cancel, done: make(chan struct{})}
		s.live[t.ID] = l
		s.wg.Go(func() { s.runCommand(ctx, l, limits) })
	})
}

// change decides about a task in a transaction of its own.
func (s *Service) change(ctx context.Context, id string, in Input) (t Task, err error) {
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		t, _, err = s.core.Apply(tx, id, in)
		return err
	})
	return t, err
}

func (s *Service) load(tx *db.Tx, id string) (Task, error) { return s.o.Store.Task(tx, id) }

func (s *Service) save(tx *db.Tx, _ string, before, after Task) error {
	switch after.State {
	case before.State:
		if after.Deadline == before.Deadline {
			return nil
		}
	case Running:
		return s.o.Store.AddTask(tx, after)
	}
	return s.o.Store.SaveTask(tx, after)
}

func (s *Service) carryOut(tx *db.Tx, _ string, t Task, e Effect) error {
	switch e := e.(type) {
	case Refuse:
		return nil // start returns it
	case Prompt:
		return publishPrompt(tx, t)
	case PublishStart:
		started, err := startEvent(t)
		if err != nil {
			return err
		}
		return s.o.Publish(tx, started)
	case Follow:
		s.follow(tx, t, e.Limits)
		return nil
	case PublishEnd:
		ended, err := endEvent(t)
		if err != nil {
			return err
		}
		return s.o.Publish(tx, ended)
	case CancelRequest:
		return publishCancel(tx, t)
	}
	return fmt.Errorf("unknown effect %T", e)
}

// Stop stops a task and returns it when all its processes have ended. A task that has
// ended is returned unchanged.
func (s *Service) Stop(ctx context.Context, id string, by Actor) (Task, error) {
	t, err := s.Task(ctx, id)
	if err != nil || t.State != Running {
		return t, err
	}
	l := s.find(id)
	if t.Kind == Agent {
		return s.change(ctx, id, Stop{By: by})
	}
	if l == nil { // it is ending, or another process runs it
		return s.Task(ctx, id)
	}
	l.cancel(stopped{by})
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	select {
	case <-l.done:
		return s.Task(ctx, id)
	case <-ctx.Done():
		return t, fault.Wrap(fault.Timeout, context.Cause(ctx), "The task is stopping and has not ended yet.")
	}
}

// stopped is the cancellation cause of a command that was stopped.
type stopped struct{ by Actor }

func (stopped) Error() string { return "the task was stopped" }

var errTimeUp = errors.New("the time limit of the task is over")

// RequestEnded ends the task of a sub-agent in the transaction that ends its request. It
// ignores other requests. A damaged row never prevents the end of a request: the end of
// a damaged task is logged, and not reported to the session.
func (s *Service) RequestEnded(tx *db.Tx, requestID, sessionID string, state event.RequestState, detail string) error {
	if !IsChild(sessionID) {
		return nil
	}
	t, err := s.o.Store.TaskByChild(tx, sessionID)
	if fault.KindOf(err) == fault.NotFound || err == nil && t.ChildRequest != requestID {
		return nil
	}
	if db.IsDamaged(err) {
		s.o.Logger.Error("cannot read the task of a sub-agent that ended", "session_id", sessionID, "request_id", requestID, "error", err)
		tx.AfterCommit(func() { s.untrack(t.ID) })
		return nil
	}
	if err != nil {
		return err
	}
	in := Answered{State: state, Detail: detail}
	content, err := s.o.Requests.LastAnswer(tx, sessionID, requestID)
	switch {
	case db.IsDamaged(err):
		in.Unreadable = fault.ToWire(err).Message
	case err != nil:
		return err
	default:
		in.Text = text.TruncateWith(content, maxAnswer, " […]")
	}
	_, _, err = s.core.ApplyTo(tx, t.ID, t, in)
	return err
}
