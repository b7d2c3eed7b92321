package environment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
)

// Group is the work group that handles environment events.
const Group = "environment"

// Options are what a [Service] is made of.
type Options struct {
	DB    *db.DB
	Bus   bus.Bus
	Inbox Inbox
	// Rules in the order of their registration; see [DefaultRules].
	Rules  []Rule
	Logger *slog.Logger
}

// Service publishes environment events and runs the rules on them.
type Service struct{ o Options }

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{o: o}
}

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{Topic: event.TopicEnv, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true}
}

// Declare makes the service's group exist; call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	return s.o.Bus.Declare(ctx, s.subscription())
}

// Run handles events until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle)
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
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	e, ok := payload.(event.EnvEvent)
	if !ok {
		return bus.Permanent(fmt.Errorf("handle environment event %q: payload is %T", d.ID, payload))
	}
	rule, ok := Match(s.o.Rules, e.Type)
	if !ok {
		if !ObserverOnly(e.Type) {
			s.o.Logger.WarnContext(ctx, "no rule matched an environment event", "event_id", e.ID, "type", e.Type)
		}
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.ErrorContext(ctx, "rule handler panicked", "rule", rule.Name, "event_id", e.ID, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = fmt.Errorf("rule %s: %w: %v", rule.Name, errPanic, p)
		}
	}()
	if err := rule.Handler(ctx, d, e); err != nil {
		return fmt.Errorf("rule %s: %w", rule.Name, err)
	}
	return nil
}
