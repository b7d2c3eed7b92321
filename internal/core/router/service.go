package router

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/compose"
	"lilac/internal/core/kernel"
	"lilac/internal/core/mark"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Group is the work group of the router.
const Group = "router"

// interruptCommand begins a message that interrupts the running request.
const interruptCommand = "!int"

// acknowledgment is the reaction on a message that was noticed and waits, and refusal on one that
// cannot be answered.
const (
	acknowledgment = "👀"
	refusal        = "🚫"
)

// detailDeleted is the reason of a request whose message was deleted.
const detailDeleted = "The message was deleted."

// Table stores the states of sessions and the delivered messages. Package store
// implements it.
type Table interface {
	// RouterState returns the zero State for a session that has none.
	RouterState(q db.Queryer, platform, sessionID string) (State, error)
	SaveRouterState(tx *db.Tx, platform, sessionID string, s State) error
	// RouterBursts returns the sessions in which a burst waits or is being judged.
	RouterBursts(q db.Queryer, platform string) (map[string]State, error)
	// MarkForwarded adds messages to the session's history.
	MarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error
	// UnmarkForwarded removes messages from it.
	UnmarkForwarded(tx *db.Tx, platform, sessionID string, messageIDs []string) error
	// Forwarded reports whether the history contains a message.
	Forwarded(q db.Queryer, platform, sessionID, messageID string) (bool, error)
	// Remembered is like Forwarded for the newest conversation of the session: the
	// model does not see the messages of earlier ones.
	Remembered(q db.Queryer, platform, sessionID, messageID string) (bool, error)
	// Ran reports whether a request ran in the newest conversation of the session,
	// which contains its output then.
	Ran(q db.Queryer, sessionID, requestID string) (bool, error)
}

// Cache has the messages and sessions of the platform. Package store implements
// it.
type Cache interface {
	Message(q db.Queryer, platform, channelID, messageID string) (surface.Message, error)
	ReplyChain(q db.Queryer, platform, channelID, messageID string, depth int) ([]surface.Message, error)
	Session(q db.Queryer, platform, channelID string) (surface.Session, error)
}

// Inbox records handled events, for bus engines that may deliver an event twice.
type Inbox interface {
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// Profile is how the agent appears on the platform and how it listens there. Its
// methods return the values that are in force now.
type Profile interface {
	// SelfID returns the agent's own user id, "" while it is not known.
	SelfID() string
	// Names returns the function that replaces mentions with names.
	Names(q db.Queryer) func(text string) string
	// Mode returns how a session listens that is not a private conversation.
	Mode(s surface.Session) Mode
	// Programs reports whether a session listens to other programs.
	Programs(s surface.Session) bool
	// Shows reports whether the model gets attachments of a media type.
	Shows(mediaType string) bool
	// MayTalk reports whether a person may talk to the agent, and Grant returns what
	// requests with the person's messages may use.
	MayTalk(u surface.User) bool
	Grant(u surface.User) grant.Grant
}

// ReplyClaimer claims replies that something waits for, so that they begin no
// request.
type ReplyClaimer interface {
	// ClaimReply hands the reply over in the transaction that routes it. It returns
	// false if nothing waits for it.
	ClaimReply(tx *db.Tx, m surface.Message) (bool, error)
}

// Gate judges whether a burst is worth an answer. An error means no.
type Gate func(ctx context.Context, burst []chat.Message) (Verdict, error)

// Verdict is a gate's judgment.
type Verdict struct {
	Forward bool
	// Used is the usage of the model as far as it is known, even beside an error.
	Used chat.Usage
}

// Budget limits how much of a model a session and a day may use.
type Budget interface {
	// Exhausted returns the limit that is reached, or "".
	Exhausted(q db.Queryer, sessionID string) (string, error)
	// Spend counts one call of a model.
	Spend(tx *db.Tx, sessionID string, used chat.Usage, took time.Duration) error
}

// Marks shows reactions of ours on messages, and tells people something in private. Package mark implements it.
type Marks interface {
	Show(tx *db.Tx, ref event.MessageRef, emoji string, n *mark.Notice) error
	Tell(tx *db.Tx, ref event.MessageRef, n mark.Notice) error
	Remove(tx *db.Tx, ref event.MessageRef, emoji string) error
}

// Settings may change while the service runs.
type Settings struct {
	Debounce Debounce
	// Gate judges bursts; nil forwards all of them.
	Gate Gate
}

// Options configure a [Service].
type Options struct {
	Platform string
	DB       *db.DB
	Bus      bus.Consumers
	Table    Table
	Inbox    Inbox
	Cache    Cache
	Profile  Profile
	// Replies claims replies that workflows wait for; nil claims none.
	Replies ReplyClaimer
	// Marks acknowledges messages that wait; nil acknowledges none.
	Marks Marks
	// Budget pays for the gate.
	Budget   Budget
	Settings Settings
	// NoVerdict is called when the gate fails, is late, or answers what cannot be read; it may be
	// nil. forwarded reports that the burst is forwarded all the same.
	NoVerdict func(forwarded bool)
	// Muted is called when a question in a session is not answered because we may not write there.
	Muted func(tx *db.Tx, sessionID string) error
	// NewID returns the last part of the id of a request that no message names.
	// Ids sort by time.
	NewID  func() string
	Logger *slog.Logger
	Now    func() time.Time
}

// Service routes the messages of one platform.
type Service struct {
	o        Options
	settings atomic.Pointer[Settings]
	bursts   *bursts
	// unreadable counts the answers of the gate in a row that could not be read.
	unreadable atomic.Int64
	core       kernel.Core[target, State, Input, Effect]
}

// target is the session that a decision concerns, and the trace that it
// continues, "" for none.
type target struct{ sessionID, traceParent string }

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
	s.core = kernel.Core[target, State, Input, Effect]{
		Load: func(tx *db.Tx, t target) (State, error) { return o.Table.RouterState(tx, o.Platform, t.sessionID) },
		// The debounce compares the time with that of the burst timer, so both use Now.
		Decide: func(st State, in Input, _ time.Time) (State, []Effect) { return Decide(st, in, s.o.Now()) },
		Save: func(tx *db.Tx, t target, _, after State) error {
			return o.Table.SaveRouterState(tx, o.Platform, t.sessionID, after)
		},
		Carry: s.carry,
		Wake:  func(t target, _, after State) { s.bursts.follow(t.sessionID, after) },
	}
	return s
}

// Configure replaces the settings for later decisions.
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

// Declare creates the service's consumer groups. Call it before anything
// publishes.
func (s *Service) Declare(ctx context.Context) error {
	for _, sub := range s.subscriptions() {
		if err := s.o.Bus.Declare(ctx, sub); err != nil {
			return fmt.Errorf("declare %s on %s: %w", sub.Group, sub.Topic, err)
		}
	}
	return nil
}

// Run routes messages until ctx ends.
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
			if facts, _ := surface.FactsOf(p.Platform, p.Raw); p.Updated && facts.MentionAdded {
				m, err := s.message(tx, p)
				if err != nil {
					return err
				}
				if !m.Delivered { // otherwise the model knows the message, and its edit is handled below
					return s.decideMessage(tx, p.ChannelID, m, d.Headers)
				}
			}
			if p.Updated {
				return s.decide(tx, p.ChannelID, Edited{ID: p.MessageID, RequestID: s.requestID(p.ChannelID, p.MessageID), At: p.TS}, d.Headers)
			}
			m, err := s.message(tx, p)
			if err != nil {
				return err
			}
			return s.decideMessage(tx, p.ChannelID, m, d.Headers)
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

// message collects the facts about a platform's message.
func (s *Service) message(tx *db.Tx, p event.AdapterMessage) (Message, error) {
	facts, complete := surface.FactsOf(p.Platform, p.Raw)
	if facts.Content != "" {
		p.Text = facts.Content // with mentions as the platform writes them
	}
	session, err := s.session(tx, p.ChannelID)
	if err != nil {
		return Message{}, err
	}
	m := Message{
		ID: p.MessageID, RequestID: s.requestID(p.ChannelID, p.MessageID), Mode: Direct,
		UserID: p.UserID, CopyOf: facts.CopyOf, Programs: s.o.Profile.Programs(session), Channel: channelOf(session),
		FromSelf: facts.AuthorIsSelf || p.UserID != "" && p.UserID == s.o.Profile.SelfID(), FromBot: facts.AuthorIsBot, FactsMissing: !complete, ForwardOnly: facts.ForwardOnly,
		Mentions: facts.MentionsBot, ReplyTo: facts.ReplyToMessageID, ReplyToUs: facts.ReplyToBot,
	}
	if !m.FromSelf {
		author, err := s.author(tx, p)
		if err != nil {
			return Message{}, err
		}
		m.FromSelf = !s.o.Profile.MayTalk(author) // like our own messages, the message wakes nobody
	}
	if m.Closed, err = s.closed(tx, session); err != nil {
		return Message{}, err
	}
	direct := facts.IsDMBased || !complete && session.Kind == surface.Direct
	if !direct {
		m.Mode = s.o.Profile.Mode(session)
	}
	if m.ReplyToUs {
		// The cache may name the request before the Output event has arrived.
		to, err := s.o.Cache.Message(tx, p.Platform, p.ChannelID, m.ReplyTo)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return Message{}, fmt.Errorf("load the message that is replied to: %w", err)
		}
		m.ReplyToRequest = to.RequestID
	}
	_, commanded := compose.Addressed(p.Text, s.o.Profile.SelfID(), interruptCommand)
	m.Interrupts = commanded && (m.Mentions || direct)
	if m.Delivered, err = s.o.Table.Forwarded(tx, p.Platform, p.ChannelID, p.MessageID); err != nil {
		return Message{}, fmt.Errorf("check the history: %w", err)
	}
	if s.o.Replies != nil && m.ReplyTo != "" && !m.FromSelf && !m.FromBot {
		m.Claimed, err = s.o.Replies.ClaimReply(tx, surface.Message{
			Platform: p.Platform, ChannelID: p.ChannelID, ID: p.MessageID, AuthorID: p.UserID, AuthorName: p.UserName,
			Text: p.Text, ReplyTo: m.ReplyTo, CreatedAt: p.TS, FromSelf: m.FromSelf, AuthorBot: m.FromBot,
		})
	}
	return m, err
}

// author returns the author of a message, with the roles that the cache has.
func (s *Service) author(q db.Queryer, p event.AdapterMessage) (surface.User, error) {
	m, err := s.o.Cache.Message(q, p.Platform, p.ChannelID, p.MessageID)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return surface.User{}, fmt.Errorf("load the author of a message: %w", err)
	}
	return surface.User{ID: p.UserID, Name: p.UserName, Roles: m.AuthorRoles}, nil
}

// grantOf returns what a request with messages of these ids may use: what all of their
// authors allow.
func (s *Service) grantOf(q db.Queryer, sessionID string, ids []string) (g grant.Grant, err error) {
	for _, id := range ids {
		m, err := s.o.Cache.Message(q, s.o.Platform, sessionID, id)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, fmt.Errorf("load the author of a message: %w", err)
		}
		g = g.And(s.o.Profile.Grant(m.Author()))
	}
	return g, nil
}

// Route routes a cached message, whose event was claimed earlier, in the caller's
// transaction.
func (s *Service) Route(tx *db.Tx, m surface.Message) error {
	in, err := s.message(tx, event.AdapterMessage{
		Platform: m.Platform, ChannelID: m.ChannelID, MessageID: m.ID, UserID: m.AuthorID, UserName: m.AuthorName, Text: m.Text, TS: m.CreatedAt, Raw: m.Raw,
	})
	if err != nil {
		return err
	}
	return s.decideMessage(tx, m.ChannelID, in, nil)
}

func (s *Service) requestID(sessionID, specific string) string {
	return event.RequestID{Surface: s.o.Platform, Session: sessionID, Specific: specific}.String()
}

// decide makes one decision about a session in the transaction.
func (s *Service) decide(tx *db.Tx, sessionID string, e Event, h event.Headers) error {
	before, err := s.o.Table.RouterState(tx, s.o.Platform, sessionID)
	if err != nil {
		return fmt.Errorf("load the router state: %w", err)
	}
	in := Input{Event: e, Rules: s.rules()}
	if in.History, err = s.loadHistory(tx, sessionID, before, in); err != nil {
		return err
	}
	_, _, err = s.core.ApplyTo(tx, target{sessionID, h[event.HeaderTraceParent]}, before, in)
	return err
}

// carry carries out one effect.
func (s *Service) carry(tx *db.Tx, t target, _ State, e Effect) error {
	switch e := e.(type) {
	case Forward:
		return s.forward(tx, t, e)
	case Reanchor:
		return s.publish(tx, t, e.RequestID, "reanchor:"+e.RequestID+":"+e.MessageID, s.reanchor(t.sessionID, e))
	case Cancel:
		return s.publish(tx, t, e.RequestID, "cancel:"+e.RequestID, event.RequestCancel{Reason: detailDeleted})
	case Undeliver:
		return s.o.Table.UnmarkForwarded(tx, s.o.Platform, t.sessionID, e.MessageIDs)
	case Ignore:
		s.o.Logger.Warn("ignoring a message of a program: too many of them woke the agent, and no person did in between", "session_id", t.sessionID, "message_id", e.MessageID)
		return nil
	case Refuse:
		return s.refuse(tx, t.sessionID, e)
	case RefuseBurst:
		return s.refuseBurst(tx, t.sessionID, e)
	case Acknowledge:
		if s.o.Marks == nil {
			return nil
		}
		return s.o.Marks.Show(tx, s.ref(t.sessionID, e.MessageID), acknowledgment, nil)
	case Unacknowledge:
		if s.o.Marks == nil {
			return nil
		}
		for _, id := range e.MessageIDs {
			if err := s.o.Marks.Remove(tx, s.ref(t.sessionID, id), acknowledgment); err != nil {
				return err
			}
		}
		return nil
	case AskGate:
		return nil // watchBursts finds the burst in the state and asks
	default:
		return fmt.Errorf("unknown effect %T", e)
	}
}

func (s *Service) ref(sessionID, messageID string) event.MessageRef {
	return event.MessageRef{Platform: s.o.Platform, ChannelID: sessionID, MessageID: messageID}
}

func (s *Service) reanchor(sessionID string, e Reanchor) event.SurfaceReanchor {
	r := event.SurfaceReanchor{InheritReplyTo: e.Inherit, MessageID: e.MessageID}
	if !e.Inherit {
		r.ReplyTo = &event.MessageRef{Platform: s.o.Platform, ChannelID: sessionID, MessageID: e.MessageID}
	}
	return r
}

// forward sends messages to the runner and adds them to the session's history.
func (s *Service) forward(tx *db.Tx, t target, f Forward) error {
	messages, ids, err := s.compose(tx, t.sessionID, f)
	if err != nil || len(messages) == 0 {
		return err
	}
	if err := s.o.Table.MarkForwarded(tx, s.o.Platform, t.sessionID, ids); err != nil {
		return fmt.Errorf("mark messages as forwarded: %w", err)
	}
	last := f.MessageIDs[len(f.MessageIDs)-1]
	if f.Edited != 0 {
		last = fmt.Sprintf("%s:%d", last, f.Edited)
	}
	granted, err := s.grantOf(tx, t.sessionID, f.MessageIDs)
	if err != nil {
		return err
	}
	raw, err := s.rawOf(tx, t.sessionID, f, slices.DeleteFunc(slices.Clone(ids), compose.IsPlace))
	if err != nil {
		return err
	}
	return s.publish(tx, t, f.RequestID, "message:"+s.o.Platform+":"+t.sessionID+":"+last,
		event.RequestMessage{Queue: f.Queue, Messages: messages, MessageID: last, Grant: granted, Raw: raw})
}

func (s *Service) publish(tx *db.Tx, t target, requestID, id string, p event.Payload) error {
	h := event.RequestHeaders(requestID, t.sessionID, s.o.Platform)
	if t.traceParent != "" {
		h = h.With(event.HeaderTraceParent, t.traceParent)
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
