package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/kernel"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// Group is the consumer group of the commands, and the owner in the keys of the
	// outbox rows of workflows.
	Group = "workflow"
	// maxSleep bounds the sleep of the timer, which notices neither a machine that slept
	// nor a clock that was set.
	maxSleep = time.Minute
	// dueBatch is the number of due workflows per read.
	dueBatch = 100
	// retryPause is the pause after an error of the store, and troubleFor the pause
	// after an error with one workflow.
	retryPause = time.Second
	troubleFor = time.Minute
)

// Options configure a [Service].
type Options struct {
	DB      *db.DB
	Bus     bus.Consumers
	Table   Table
	Waits   Waits
	Replies Replies
	Inbox   Inbox
	Cache   Cache
	// Check validates the types and the condition of events to wait for. NewMatcher
	// returns the matcher for an event that occurred.
	Check      func(types []string, condition string) error
	NewMatcher func(event.EnvEvent) Matcher
	// SessionExists reports whether a session exists. If it is nil, all do.
	SessionExists func(q db.Queryer, sessionID string) (bool, error)
	// RequestQueued reports whether a request has not begun. If it is nil, none is
	// queued.
	RequestQueued func(q db.Queryer, requestID string) (bool, error)
	// Causes may be nil: then nothing has a cause, and no rule is charged.
	Causes Causes
	Logger *slog.Logger
	// Now returns the wall clock time, like that of the database; default [time.Now].
	Now func() time.Time
}

// Service runs workflows.
type Service struct {
	o         Options
	platforms map[string]Platform
	core      kernel.Core[string, Workflow, Input, Effect]
	// wakeup wakes the timer. It holds one signal, because a second would add nothing.
	wakeup chan struct{}
	// saves counts the saved workflows, in their transactions.
	saves      atomic.Int64
	eventWaits atomic.Pointer[eventWaits]
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, platforms: map[string]Platform{}, wakeup: make(chan struct{}, 1)}
	s.core = kernel.Core[string, Workflow, Input, Effect]{
		Load: s.load, Decide: Decide, Save: s.save, Carry: effects{s}.carryOut,
		Wake: func(_ string, before, after Workflow) {
			if before.Due() != after.Due() {
				s.wakeTimer()
			}
		},
	}
	return s
}

// Connect adds a platform on which people can reply to messages. Call it before Run.
func (s *Service) Connect(name string, p Platform) { s.platforms[name] = p }

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{
		Topic: event.TopicCmdFlow, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true,
		Types: []event.Type{event.CmdWorkflowCreate, event.CmdWorkflowTaskCreate, event.CmdWorkflowCancel},
	}
}

// Declare creates the service's consumer group. Call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	return s.o.Bus.Declare(ctx, s.subscription())
}

// Run handles commands and due workflows until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return scheduler{s}.watch(ctx) })
	work.Go(func() error { return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle) })
	return work.Wait()
}

func (s *Service) handle(ctx context.Context, d bus.Delivery) error {
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if err := d.Ack(tx); err != nil {
			return err
		}
		if _, seen, err := s.o.Inbox.Seen(tx, Group, d.ID, nil); err != nil || seen {
			return err
		}
		refused, err := s.command(tx, d.Headers, payload)
		if errors.Is(refused, errTooDeep) {
			id, _ := named(payload)
			err = errors.Join(err, effects{s}.endRefusedChain(tx, originOf(d.Headers), id))
		}
		if refused != nil {
			s.o.Logger.WarnContext(ctx, "refused a command for a workflow", "event_id", d.ID, "type", d.Type, "reason", fault.ToWire(refused).Message)
		}
		return err
	})
}

// Submit publishes commands and carries them out in one transaction. It fails if a
// command is refused, or if its workflow does not exist or is not visible. If visible
// is nil, all workflows are.
func (s *Service) Submit(ctx context.Context, from Origin, visible func(Workflow) bool, payloads ...event.Payload) error {
	id := ""
	err := s.o.DB.Update(ctx, func(tx *db.Tx) error {
		for _, p := range payloads {
			id, _ = named(p)
			if err := s.submit(tx, from, visible, p); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errTooDeep) { // the transaction that would have recorded it was undone
		noted := s.o.DB.Update(ctx, func(tx *db.Tx) error { return effects{s}.endRefusedChain(tx, from, id) })
		return errors.Join(err, noted)
	}
	return err
}

// named returns the workflow of a command, and the key of the command within it.
func named(p event.Payload) (id, act string) {
	switch p := p.(type) {
	case event.WorkflowCreate:
		return p.WorkflowID, "create"
	case event.WorkflowTaskCreate:
		return p.WorkflowID, "add:" + p.TaskID
	case event.WorkflowCancel:
		return p.WorkflowID, "cancel"
	}
	return "", ""
}

func (s *Service) submit(tx *db.Tx, from Origin, visible func(Workflow) bool, p event.Payload) error {
	id, act := named(p)
	if act != "create" {
		w, err := s.o.Table.Workflow(tx, id)
		if err != nil {
			return err
		}
		if visible != nil && !visible(w) {
			return NotFound(id)
		}
		if from == (Origin{}) {
			from = w.Origin
		}
	}
	e, err := event.New(event.Meta{ID: Group + ":" + id + ":" + act, Time: tx.Now(), Headers: from.headers()}, p)
	if err != nil {
		return err
	}
	if err := tx.Publish(e); err != nil {
		return fmt.Errorf("publish command for a workflow: %w", err)
	}
	if _, seen, err := s.o.Inbox.Seen(tx, Group, e.ID, nil); err != nil || seen {
		return err
	}
	refused, err := s.command(tx, e.Headers, p)
	if refused != nil {
		return refused
	}
	return err
}

// Get returns a workflow, or a fault.NotFound.
func (s *Service) Get(ctx context.Context, id string) (w Workflow, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		w, err = s.o.Table.Workflow(q, id)
		return err
	})
	return w, err
}

// List lists workflows, the newest first; see [Table].
func (s *Service) List(ctx context.Context, sessionID string, waiting bool, limit int, before string) (all []Workflow, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		all, err = s.o.Table.Workflows(q, sessionID, waiting, limit, before)
		return err
	})
	return all, err
}

// NotFound returns the error for a workflow that does not exist, or is not visible to
// the caller.
func NotFound(id string) error {
	return fault.New(fault.NotFound, "There is no workflow %s.", id)
}

// command carries out a command. refused is the reason why it was refused.
func (s *Service) command(tx *db.Tx, h event.Headers, payload event.Payload) (refused, err error) {
	from := originOf(h)
	switch p := payload.(type) {
	case event.WorkflowCreate:
		d, err := definitionOf(p)
		if err != nil {
			return err, nil
		}
		for _, t := range d.Tasks {
			if err := s.checkEvent(t); err != nil {
				return err, nil
			}
		}
		in := Create{ID: p.WorkflowID, From: from, Definition: d}
		if in.Cause, err = s.causeOf(tx, from); err != nil {
			return nil, err
		}
		if in.InSession, in.InAll, err = s.o.Table.CountWaiting(tx, from.SessionID); err != nil {
			return nil, err
		}
		return s.apply(tx, p.WorkflowID, in)
	case event.WorkflowTaskCreate:
		spec := Spec{TaskID: p.TaskID, Kind: p.Kind, Description: p.Description, Input: p.Input}
		if err := s.checkEvent(spec); err != nil {
			return err, nil
		}
		cause, err := s.causeOf(tx, from)
		if err != nil {
			return nil, err
		}
		return s.apply(tx, p.WorkflowID, Add{ID: p.WorkflowID, From: from, Cause: cause, Spec: spec})
	case event.WorkflowCancel:
		return s.apply(tx, p.WorkflowID, Cancel{ID: p.WorkflowID, From: from, Reason: p.Reason})
	}
	return nil, nil
}

// causeOf returns what led to a request.
func (s *Service) causeOf(q db.Queryer, from Origin) (Cause, error) {
	if s.o.Causes == nil {
		return Cause{}, nil
	}
	cause, err := s.o.Causes.CauseOf(q, from.RequestID)
	if err != nil {
		return cause, fmt.Errorf("read the cause of request %s: %w", from.RequestID, err)
	}
	return cause, nil
}

// checkEvent validates the condition of a task that waits for events.
func (s *Service) checkEvent(spec Spec) error {
	if spec.Kind != KindEvent {
		return nil
	}
	t, err := newTask(spec, 0, s.o.Now())
	if err != nil {
		return err
	}
	return s.o.Check(t.Wait.Types, t.Wait.If)
}

// apply decides about one workflow and carries out the effects in the transaction.
// refused is the reason why the input, a command, was refused.
func (s *Service) apply(tx *db.Tx, id string, in Input) (refused, err error) {
	return s.decide(tx, s.core, id, in)
}

func (s *Service) decide(tx *db.Tx, core kernel.Core[string, Workflow, Input, Effect], id string, in Input) (refused, err error) {
	w, err := s.load(tx, id)
	if err != nil {
		return nil, err
	}
	if w.Facts, err = s.facts(tx, w, in); err != nil {
		return nil, err
	}
	_, effects, err := core.ApplyTo(tx, id, w, in)
	for _, e := range effects {
		if r, is := e.(Refuse); is {
			refused = r.Err
		}
	}
	return refused, err
}

func (s *Service) load(tx *db.Tx, id string) (Workflow, error) {
	w, err := s.o.Table.Workflow(tx, id)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return w, fmt.Errorf("load workflow %s: %w", id, err)
	}
	return w, nil
}

// facts loads what a decision may need besides the workflow.
func (s *Service) facts(q db.Queryer, w Workflow, in Input) (f Facts, err error) {
	var specs []Spec
	sessionID := w.Resume.SessionID
	switch in := in.(type) {
	case Create:
		specs, sessionID = in.Definition.Tasks, in.From.SessionID
		if to := in.Definition.Resume; to != nil && to.SessionID != "" {
			sessionID = to.SessionID
		}
	case Add:
		specs = []Spec{in.Spec}
	}
	for _, spec := range specs {
		if platform, sends := platformOf(spec.Kind, sendKind); sends {
			f.disconnect(s.platforms, platform)
		}
	}
	for _, t := range w.Tasks { // those that came before their workflow
		if t.Wait.Text != "" {
			f.disconnect(s.platforms, t.Wait.Platform)
		}
	}
	if s.o.SessionExists != nil {
		known, err := s.o.SessionExists(q, sessionID)
		if err != nil {
			return f, err
		}
		f.SessionGone = !known
	}
	return f, nil
}

func (f *Facts) disconnect(connected map[string]Platform, platform string) {
	if _, ok := connected[platform]; !ok {
		f.Disconnected = append(f.Disconnected, platform)
	}
}

func (s *Service) save(tx *db.Tx, id string, _, after Workflow) error {
	if after.State == "" && after.CreatedAt == 0 {
		return nil // it was refused
	}
	s.saves.Add(1)
	if err := s.o.Table.SaveWorkflow(tx, after); err != nil {
		return fmt.Errorf("save workflow %s: %w", id, err)
	}
	return nil
}

// ring wakes the timer; it never blocks.
func (s *Service) wakeTimer() {
	select {
	case s.wakeup <- struct{}{}:
	default: // one signal is pending already
	}
}
