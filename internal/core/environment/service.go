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
	"lilac/internal/foundation/order"
)

// Group is the work group that handles environment events.
const Group = "environment"

// Options configure a [Service].
type Options struct {
	DB    *db.DB
	Bus   bus.Consumers
	Inbox Inbox
	// Runs, Holds, Causes, and Events may be nil if every rule is a function.
	Runs    Runs
	Holds   Holds
	Causes  Causes
	Events  Events
	Session Sessions
	// Agent returns the task of a session that belongs to a sub-agent, and its description, and ""
	// for other sessions; it may be nil.
	Agent func(q db.Queryer, sessionID string) (id, name string, err error)
	// Intake, if set, learns which events were handled.
	Intake *Intake
	// Rules in the order of their registration; see [DefaultRules].
	Rules []Rule
	// Observe, if set, receives every event before it is matched, possibly more
	// than once.
	Observe func(ctx context.Context, e event.EnvEvent) error
	// SourceTools may be nil: then the default holds for every source.
	SourceTools SourceTools
	// Workspace returns the directory in which the agent handles the events of a rule in a
	// session: payloads that are too long for a message are written there. nil writes none.
	Workspace func(q db.Queryer, sessionID, rule string) (dir string, err error)
	Logger    *slog.Logger
}

// Service publishes environment events and applies the rules to them.
type Service struct {
	o     Options
	rules atomic.Pointer[ruleSet]
	// wakeup wakes runHolds. It holds one signal, because a second would add
	// nothing.
	wakeup   chan struct{}
	warnings warnings
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Agent == nil {
		o.Agent = func(db.Queryer, string) (id, name string, err error) { return "", "", nil }
	}
	s := &Service{o: o, wakeup: make(chan struct{}, 1)}
	s.SetRules(o.Rules)
	return s
}

// ruleSet holds rules in the order of their registration, and in the one in which they are tried.
type ruleSet struct{ registered, ordered []Rule }

// Rules returns the rules in force.
func (s *Service) Rules() []Rule { return s.rules.Load().registered }

// SetRules replaces the rules. Events that are being handled keep the old ones.
func (s *Service) SetRules(rules []Rule) {
	s.rules.Store(&ruleSet{registered: slices.Clone(rules), ordered: order.Sorted(slices.Values(rules), byPriority)})
	s.wake()
}

// maxAttempts is the number of attempts before an event becomes a dead letter.
const maxAttempts = 5

func (s *Service) subscription() bus.Subscription {
	return bus.Subscription{
		Topic: event.TopicEnv, Group: Group, Mode: bus.Work, Consumer: Group, FromBegin: true, MaxAttempts: maxAttempts, Reads: s.announceReads,
	}
}

// announceReads announces what the rules of an event's type read; see [bus.Subscription].
func (s *Service) announceReads(tx *db.Tx, e event.Event) {
	for _, r := range s.Rules() {
		if r.reads == nil || !slices.Contains(r.Types, string(e.Type)) {
			continue
		}
		if payload, err := event.Decode(e); err == nil { // the handler reports it
			if e, ok := payload.(event.EnvEvent); ok {
				r.reads(tx, e)
			}
		}
	}
}

// Declare creates the service's consumer group. Call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	return s.o.Bus.Declare(ctx, s.subscription())
}

// Run handles events until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	if s.o.Runs == nil {
		return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle)
	}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.runHolds(ctx) })
	work.Go(func() error { return s.o.Bus.Subscribe(ctx, s.subscription(), s.handle) })
	return work.Wait()
}

// Publish is like the function [Publish], but in a transaction of its own. It
// returns when the event is durable.
func (s *Service) Publish(ctx context.Context, e event.EnvEvent) (published bool, err error) {
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		published, err = Publish(tx, s.o.Inbox, e)
		return err
	})
	return published, err
}

// errPanic replaces the panic of a handler, so that the bus retries the event like
// after any other failure.
var errPanic = errors.New("rule handler panicked")

func (s *Service) handle(ctx context.Context, d bus.Delivery) (err error) {
	defer func() {
		if err == nil || bus.IsPermanent(err) || d.Attempt >= maxAttempts {
			s.o.Intake.release(d.ID)
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
			return fmt.Errorf("pass event to observer: %w", err)
		}
	}
	rule, ok, results := Match(s.rules.Load().ordered, e)
	failed := failures(results)
	for _, r := range failed {
		s.o.Logger.WarnContext(ctx, "cannot evaluate the condition of a rule", "rule", r.Rule, "event_id", e.ID, "reason", r.Error)
	}
	switch {
	case !ok && len(failed) > 0:
		return s.recordFailures(ctx, d, e, failed)
	case !ok:
		if !ObserverOnly(e.Type) && !reportedByTool(e) {
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
	if f, own := rule.Action.(Function); own {
		_, err = f.Do(ctx, Call{Rule: rule, Event: e, SessionID: e.Metadata.TriggerSessionID, Delivery: d})
	} else {
		err = s.act(ctx, d, rule, e, failed)
	}
	if err != nil {
		return fmt.Errorf("rule %s: %w", rule.Name, err)
	}
	return nil
}

// warn logs a warning about an event. For events of one type and session it logs
// the first, and then at most one per minute: there may be many.
func (s *Service) warn(ctx context.Context, message string, e event.EnvEvent, session string, args ...any) {
	suppressed, ok := s.warnings.allow(message+"\x00"+string(e.Type)+"\x00"+session, time.Now())
	if !ok {
		return
	}
	args = append([]any{"event_id", e.ID, "type", e.Type}, args...)
	if suppressed > 0 {
		args = append(args, "events_before", suppressed)
	}
	s.o.Logger.WarnContext(ctx, message, args...)
}

// titlePrefix marks a session that is given by its title.
const titlePrefix = "title:"

// target returns the id of the session that the rule acts in, or "".
func (s *Service) target(q db.Queryer, r Rule, e event.EnvEvent) (string, error) {
	id, err := r.target(e)
	if err != nil {
		return "", bus.Permanent(fmt.Errorf("find session: %w", err))
	}
	if title, ok := strings.CutPrefix(id, titlePrefix); ok {
		if s.o.Session.Titled == nil || title == "" { // no session has an empty title
			return "", nil
		}
		return s.o.Session.Titled(q, title)
	}
	return id, nil
}

// sessionName returns the session of an event as the rule names it, for logs.
func sessionName(r Rule, e event.EnvEvent) string {
	name, _ := r.target(e) // the caller has handled its error already
	return name
}

// client returns the surface of a session, and whether the session exists.
func (s *Service) client(q db.Queryer, sessionID string) (client string, exists bool, err error) {
	switch {
	case sessionID == "":
		return "", false, nil
	case s.o.Session.Client == nil:
		return Surface, true, nil
	}
	client, exists, err = s.o.Session.Client(q, sessionID)
	if err != nil {
		return "", false, fmt.Errorf("look up session: %w", err)
	}
	return client, exists, nil
}
