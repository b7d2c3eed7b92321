package router

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/compose"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Group is the work group of the router.
const Group = "router"

// interruptCommand begins a message that is to interrupt what runs.
const interruptCommand = "!int"

// detailDeleted is why a question is not answered whose message is gone.
const detailDeleted = "The message was deleted."

// Table keeps what the router knows; package store satisfies it.
type Table interface {
	// RouterState returns the zero State for a session that has none.
	RouterState(q db.Queryer, platform, sessionID string) (State, error)
	SaveRouterState(tx *db.Tx, platform, sessionID string, s State) error
	// RouterBursts lists the sessions in which a burst waits or is being judged.
	RouterBursts(q db.Queryer, platform string) (map[string]State, error)
	// MarkForwarded remembers that a message is in its session's history.
	MarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error
	// UnmarkForwarded takes that back.
	UnmarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error
	Forwarded(q db.Queryer, platform, sessionID, messageID string) (bool, error)
	// Ran reports whether a request is one of the session, which has what it
	// said then.
	Ran(q db.Queryer, sessionID, requestID string) (bool, error)
}

// Inbox remembers which events were handled, on engines that may bring one twice.
type Inbox interface {
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// Gate judges a burst; an error means no.
type Gate func(ctx context.Context, burst []chat.Message) (Verdict, error)

// Verdict is a gate's judgement.
type Verdict struct {
	Forward bool
	// Used is what the judgement cost, as far as it is known: also beside an error.
	Used chat.Usage
}

// Budget is what a session and the day may still use of a model.
type Budget interface {
	// Exhausted says which limit is reached, or "".
	Exhausted(q db.Queryer, sessionID string) (string, error)
	// Spend counts one call of a model.
	Spend(tx *db.Tx, sessionID string, used chat.Usage, took time.Duration) error
}

// Settings are what may change while the service runs.
type Settings struct {
	Debounce Debounce
	// Gate judges bursts; nil lets all through.
	Gate Gate
}

// Options are what a [Service] is made of.
type Options struct {
	Platform string
	DB       *db.DB
	Bus      bus.Bus
	Table    Table
	Inbox    Inbox
	Cache    surface.Cache
	// SelfID is our own id there, "" while it is not known.
	SelfID func() string
	// Names returns what turns mentions into names.
	Names func(q db.Queryer) func(text string) string
	// Mode says how a session listens that is no private one.
	Mode func(s surface.Session) Mode
	// Take gives a reply to whatever waits for it, in the transaction that
	// routes it, and is true if it is that one's and no request; nil takes none.
	Take func(tx *db.Tx, m surface.Message) (bool, error)
	// Images says that the model sees pictures.
	Images func() bool
	// Budget pays for the gate.
	Budget   Budget
	Settings Settings
	// NewID makes the last part of the id of a request that nobody asked by
	// name; it sorts by time.
	NewID  func() string
	Logger *slog.Logger
	Now    func() time.Time
}

// Service routes the messages of one platform.
type Service struct {
	o        Options
	settings atomic.Pointer[Settings]
	bursts   *bursts
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{o: o, bursts: newBursts()}
	s.settings.Store(&o.Settings)
	return s
}

// Configure replaces the settings, for what comes from now on.
func (s *Service) Configure(set Settings) { s.settings.Store(&set) }

func (s *Service) rules() Rules {
	set := s.settings.Load()
	return Rules{Debounce: set.Debounce, Gate: set.Gate != nil}
}

func (s *Service) subscriptions() []bus.Subscription {
	group := Group + "-" + s.o.Platform
	of := func(topic event.Topic, types ...event.Type) bus.Subscription {
		return bus.Subscription{Topic: topic, Group: group, Mode: bus.Work, Consumer: group, FromBegin: true, Types: types}
	}
	return []bus.Subscription{
		of(event.TopicAdapter, event.AdapterMessageCreated, event.AdapterMessageUpdated, event.AdapterMessageDeleted),
		of(event.TopicRequest, event.RequestLifecycleChanged),
		of(event.TopicSurface, event.SurfaceOutputCreated),
	}
}

// Declare makes the service's groups exist; call it before anything publishes.
func (s *Service) Declare(ctx context.Context) error {
	for _, sub := range s.subscriptions() {
		if err := s.o.Bus.Declare(ctx, sub); err != nil {
			return fmt.Errorf("declare %s on %s: %w", sub.Group, sub.Topic, err)
		}
	}
	return nil
}

// Run routes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error { return s.watchBursts(ctx) })
	for _, sub := range s.subscriptions() {
		work.Go(func() error { return s.o.Bus.Subscribe(ctx, sub, s.handle) })
	}
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
		if _, seen, err := s.o.Inbox.Seen(tx, Group+"-"+s.o.Platform, d.ID, nil); err != nil || seen {
			return err
		}
		switch p := payload.(type) {
		case event.AdapterMessage:
			if p.Platform != s.o.Platform {
				return nil
			}
			if p.Updated {
				return s.decide(tx, p.ChannelID, Edited{ID: p.MessageID, RequestID: s.requestID(p.ChannelID, p.MessageID), At: p.TS}, d.Headers)
			}
			m, err := s.message(tx, p)
			if err != nil {
				return err
			}
			return s.decide(tx, p.ChannelID, m, d.Headers)
		case event.AdapterDeletion:
			if p.Platform != s.o.Platform {
				return nil
			}
			return s.decide(tx, p.ChannelID, Deleted{ID: p.MessageID, RequestID: s.requestID(p.ChannelID, p.MessageID)}, d.Headers)
		case event.RequestLifecycle:
			if d.Headers.Client() != s.o.Platform {
				return nil
			}
			return s.decide(tx, d.Headers.SessionID(), Lifecycle{RequestID: d.Headers.RequestID(), State: p.State}, d.Headers)
		case event.SurfaceMessageCreated:
			if p.MsgRef.Platform != s.o.Platform {
				return nil
			}
			return s.decide(tx, d.Headers.SessionID(), Output{RequestID: d.Headers.RequestID(), MessageID: p.MsgRef.MessageID}, d.Headers)
		}
		return nil
	})
}

// message is what the rules need to know of a platform's message.
func (s *Service) message(tx *db.Tx, p event.AdapterMessage) (Message, error) {
	facts, clear := surface.FactsOf(p.Platform, p.Raw)
	session, err := s.session(tx, p.ChannelID)
	if err != nil {
		return Message{}, err
	}
	m := Message{
		ID: p.MessageID, RequestID: s.requestID(p.ChannelID, p.MessageID), Mode: Direct,
		FromSelf: facts.AuthorIsSelf || p.UserID != "" && p.UserID == s.o.SelfID(), FromBot: facts.AuthorIsBot, Unclear: !clear,
		Mentions: facts.MentionsBot, ReplyTo: facts.ReplyToMessageID, ReplyToUs: facts.ReplyToBot,
	}
	direct := facts.IsDMBased || !clear && session.Kind == surface.Direct
	if !direct {
		m.Mode = s.o.Mode(session)
	}
	if m.ReplyToUs {
		// The cache may know it before the event does that tells of the message.
		to, err := s.o.Cache.Message(tx, p.Platform, p.ChannelID, m.ReplyTo)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return Message{}, fmt.Errorf("load what is replied to: %w", err)
		}
		m.ReplyToRequest = to.RequestID
	}
	_, commanded := compose.Addressed(p.Text, s.o.SelfID(), interruptCommand)
	m.Interrupts = commanded && (m.Mentions || direct)
	if m.Told, err = s.o.Table.Forwarded(tx, p.Platform, p.ChannelID, p.MessageID); err != nil {
		return Message{}, fmt.Errorf("check the history: %w", err)
	}
	if s.o.Take != nil && m.ReplyTo != "" && !m.FromSelf && !m.FromBot {
		m.Taken, err = s.o.Take(tx, surface.Message{
			Platform: p.Platform, ChannelID: p.ChannelID, ID: p.MessageID, AuthorID: p.UserID, AuthorName: p.UserName,
			Text: p.Text, ReplyTo: m.ReplyTo, CreatedAt: p.TS, FromSelf: m.FromSelf, AuthorBot: m.FromBot,
		})
	}
	return m, err
}

// Route routes a message of the cache whose event was set aside before, in the
// caller's transaction.
func (s *Service) Route(tx *db.Tx, m surface.Message) error {
	in, err := s.message(tx, event.AdapterMessage{
		Platform: m.Platform, ChannelID: m.ChannelID, MessageID: m.ID, UserID: m.AuthorID, UserName: m.AuthorName, Text: m.Text, TS: m.CreatedAt, Raw: m.Raw,
	})
	if err != nil {
		return err
	}
	return s.decide(tx, m.ChannelID, in, nil)
}

func (s *Service) requestID(sessionID, specific string) string {
	return event.RequestID{Surface: s.o.Platform, Session: sessionID, Specific: specific}.String()
}

// decide runs the rules and writes what follows, all in the transaction.
func (s *Service) decide(tx *db.Tx, sessionID string, in Input, h event.Headers) error {
	before, err := s.o.Table.RouterState(tx, s.o.Platform, sessionID)
	if err != nil {
		return fmt.Errorf("load what the router knows: %w", err)
	}
	after, effects := Decide(before, in, s.rules(), s.o.Now())
	trace, said := h[event.HeaderTraceParent], true
	var told []string
	for _, e := range effects {
		switch e := e.(type) {
		case Forward:
			told, said, err = s.forward(tx, sessionID, e, trace)
			after, _ = Decide(after, Told{e.RequestID, told}, s.rules(), s.o.Now())
			if !said && e.Queue == event.Prompt && e.Edited == 0 { // and so nothing begins
				after, _ = Decide(after, Lifecycle{RequestID: e.RequestID, State: event.StateCancelled}, s.rules(), s.o.Now())
			}
		case Reanchor:
			if said {
				err = s.publish(tx, sessionID, e.RequestID, "reanchor:"+e.RequestID+":"+e.MessageID, trace, s.reanchor(sessionID, e))
			}
		case Cancel:
			err = s.publish(tx, sessionID, e.RequestID, "cancel:"+e.RequestID, trace, event.RequestCancel{Reason: detailDeleted})
		case Untell:
			if err = s.o.Table.UnmarkForwarded(tx, s.o.Platform, sessionID, e.MessageIDs); err != nil {
				err = fmt.Errorf("remember what was not told: %w", err)
			}
		case Ask: // the state says so, and who watches the bursts asks
		default:
			err = fmt.Errorf("carry out %T: unknown effect", e)
		}
		if err != nil {
			return err
		}
	}
	if err := s.o.Table.SaveRouterState(tx, s.o.Platform, sessionID, after); err != nil {
		return fmt.Errorf("save what the router knows: %w", err)
	}
	tx.AfterCommit(func() { s.bursts.follow(sessionID, after) })
	return nil
}

func (s *Service) reanchor(sessionID string, e Reanchor) event.SurfaceReanchor {
	r := event.SurfaceReanchor{InheritReplyTo: e.Inherit, MessageID: e.MessageID}
	if !e.Inherit {
		r.ReplyTo = &event.MessageRef{Platform: s.o.Platform, ChannelID: sessionID, MessageID: e.MessageID}
	}
	return r
}

// forward tells the runner; nothing is said of what was deleted or told
// meanwhile. It returns what is told now.
func (s *Service) forward(tx *db.Tx, sessionID string, f Forward, traceParent string) (ids []string, said bool, err error) {
	if f.MessageIDs, err = s.untold(tx, sessionID, f); err != nil || len(f.MessageIDs) == 0 {
		return nil, false, err
	}
	messages, ids, err := s.compose(tx, sessionID, f)
	if err != nil || len(messages) == 0 {
		return nil, false, err
	}
	if err := s.o.Table.MarkForwarded(tx, s.o.Platform, sessionID, ids); err != nil {
		return nil, false, fmt.Errorf("remember what was forwarded: %w", err)
	}
	last := f.MessageIDs[len(f.MessageIDs)-1]
	if f.Edited != 0 {
		last = fmt.Sprintf("%s:%d", last, f.Edited)
	}
	raw, err := json.Marshal(map[string]any{s.o.Platform: map[string]any{"messageIds": ids}})
	if err != nil {
		return nil, false, fmt.Errorf("encode the forwarded ids: %w", err)
	}
	return ids, true, s.publish(tx, sessionID, f.RequestID, "message:"+s.o.Platform+":"+sessionID+":"+last, traceParent,
		event.RequestMessage{Queue: f.Queue, Messages: messages, MessageID: last, Raw: raw})
}

func (s *Service) publish(tx *db.Tx, sessionID, requestID, id, traceParent string, p event.Payload) error {
	h := event.RequestHeaders(requestID, sessionID, s.o.Platform)
	if traceParent != "" {
		h = h.With(event.HeaderTraceParent, traceParent)
	}
	e, err := event.New(event.Meta{ID: id, Time: tx.Now(), Headers: h}, p)
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

func (s *Service) session(q db.Queryer, channelID string) (surface.Session, error) {
	session, err := s.o.Cache.Session(q, s.o.Platform, channelID)
	if fault.KindOf(err) == fault.NotFound {
		return surface.Session{Platform: s.o.Platform, ChannelID: channelID, Kind: surface.Channel}, nil
	}
	return session, err
}
