package environment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// Group is the work group that handles environment events.
const Group = "environment"

// Options are what a [Service] is made of.
type Options struct {
	DB    *db.DB
	Bus   bus.Bus
	Inbox Inbox
	// Records may be nil when every rule is a function.
	Records Records
	// Session finds sessions.
	Session Sessions
	// Intake, if set, is told of what was handled.
	Intake *Intake
	// Rules in the order of their registration; see [DefaultRules].
	Rules []Rule
	// Observe is told of every event before its rule is looked for; it may be
	// told of one again. Nil tells nobody.
	Observe func(ctx context.Context, e event.EnvEvent) error
	// Workspace is where long payloads are written for the agent; "" writes none.
	Workspace string
	Logger    *slog.Logger
}

// Sessions is what rules know of sessions.
type Sessions struct {
	// Client returns the surface of a session, and whether there is one of
	// that id; nil trusts the publisher.
	Client func(q db.Queryer, sessionID string) (client string, known bool, err error)
	// Titled returns the session with a title, or ""; several that have it are a
	// fault.Conflict that names them.
	Titled func(q db.Queryer, title string) (sessionID string, err error)
}

// Service publishes environment events and runs the rules on them.
type Service struct {
	o     Options
	rules atomic.Pointer[[]Rule]
	// rung holds one wake-up of waits: a second would say nothing more.
	rung     chan struct{}
	warnings warnings
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{o: o, rung: make(chan struct{}, 1)}
	s.SetRules(o.Rules)
	return s
}

// Rules returns the rules that are in force.
func (s *Service) Rules() []Rule { return *s.rules.Load() }

// SetRules replaces the rules. Events that are being handled keep theirs.
func (s *Service) SetRules(rules []Rule) {
	rules = slices.Clone(rules)
	s.rules.Store(&rules)
	s.alarm()
}

// maxAttempts is how often an event is tried before it is a dead letter.
const maxAttempts = 5

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{Topic: event.TopicEnv, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true, MaxAttempts: maxAttempts}
}

// Declare makes the service's group exist; call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	return s.o.Bus.Declare(ctx, s.subscription())
}

// Run handles events until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if s.o.Records == nil {
		return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.waits(ctx) })
	work.Go(func() error { return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle) })
	return work.Wait()
}

// Publish publishes e in a transaction of its own and returns when it is
// durable; see the function of the same name.
func (s *Service) Publish(ctx context.Context, e event.EnvEvent) (published bool, err error) {
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		published, err = Publish(tx, s.o.Inbox, e)
		return err
	})
	return published, err
}

// errPanic is what a handler's panic becomes, so that the bus retries it like
// any failure and the log has the stack.
var errPanic = errors.New("rule handler panicked")

func (s *Service) handle(ctx context.Context, d bus.Delivery) (err error) {
	defer func() {
		if err == nil || bus.IsPermanent(err) || d.Attempt >= maxAttempts {
			s.o.Intake.handled(d.ID)
		}
	}()
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	e, ok := payload.(event.EnvEvent)
	if !ok {
		return bus.Permanent(fmt.Errorf("handle environment event %q: payload is %T", d.ID, payload))
	}
	if s.o.Observe != nil {
		if err := s.o.Observe(ctx, e); err != nil {
			return fmt.Errorf("tell who waits for events: %w", err)
		}
	}
	rule, ok, looks := Match(s.Rules(), e)
	for _, l := range looks {
		if strings.HasPrefix(l.Why, conditionFailed) {
			s.o.Logger.WarnContext(ctx, "a rule could not decide about an event", "rule", l.Rule, "event_id", e.ID, "reason", l.Why)
		}
	}
	if !ok {
		if !ObserverOnly(e.Type) && !known(e) {
			s.warn(ctx, "no rule matched an environment event", e, "")
		}
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.ErrorContext(ctx, "rule handler panicked", "rule", rule.Name, "event_id", e.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("rule %s: %w: %v", rule.Name, errPanic, p)
		}
	}()
	handler := rule.Handler
	if handler == nil {
		handler = func(ctx context.Context, d bus.Delivery, e event.EnvEvent) error { return s.act(ctx, d, rule, e) }
	}
	if err := handler(ctx, d, e); err != nil {
		return fmt.Errorf("rule %s: %w", rule.Name, err)
	}
	return nil
}

// warn warns of an event, but for the first one of a type and session only once
// in a while: there may be many.
func (s *Service) warn(ctx context.Context, what string, e event.EnvEvent, sessionID string, args ...any) {
	unsaid, say := s.warnings.due(what+"\x00"+string(e.Type)+"\x00"+sessionID, time.Now())
	if !say {
		return
	}
	args = append([]any{"event_id", e.ID, "type", e.Type}, args...)
	if unsaid > 0 {
		args = append(args, "events_before", unsaid)
	}
	s.o.Logger.WarnContext(ctx, what, args...)
}

// target is the session that the rule handles the event for, or "".
func (s *Service) target(q db.Queryer, r Rule, e event.EnvEvent) (string, error) {
	id, err := named(r, e)
	if err != nil {
		return "", bus.Permanent(fmt.Errorf("find session: %w", err))
	}
	if title, ok := strings.CutPrefix(id, titlePrefix); ok {
		if s.o.Session.Titled == nil || title == "" { // no title is the name of none
			return "", nil
		}
		return s.o.Session.Titled(q, title)
	}
	return id, nil
}

// named is what the rule calls the session that it handles the event for: an
// id, or its title.
func named(r Rule, e event.EnvEvent) (string, error) {
	if r.Target == nil {
		return e.Metadata.TriggerSessionID, nil
	}
	return r.Target(e)
}

// titlePrefix begins a session that is named by its title.
const titlePrefix = "title:"

func (s *Service) client(q db.Queryer, sessionID string) (client string, known bool, err error) {
	switch {
	case sessionID == "":
		return "", false, nil
	case s.o.Session.Client == nil:
		return Surface, true, nil
	}
	client, known, err = s.o.Session.Client(q, sessionID)
	if err != nil {
		return "", false, fmt.Errorf("look up session: %w", err)
	}
	return client, known, nil
}
