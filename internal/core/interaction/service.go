package interaction

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/core/kernel"
	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Sessions reads the runner's state. Package store implements it.
type Sessions interface {
	State(q db.Queryer, sessionID string) (session.State, error)
	// Request returns a fault.NotFound for an unknown request.
	Request(q db.Queryer, requestID string) (session.Request, error)
	Story(q db.Queryer, requestID string) (session.Story, error)
	Mail(q db.Queryer, sessionID, messageID string) (session.Mail, error)
}

// Origins finds the request in which a person asked for a workflow's request.
type Origins interface {
	OriginRequest(q db.Queryer, requestID string) (string, error)
}

// Asker begins requests about messages. The platform's router implements it.
type Asker interface {
	Ask(tx *db.Tx, m surface.Message, by surface.User) error
}

// Options configure a [Service].
type Options struct {
	DB       *db.DB
	Sessions Sessions
	Origins  Origins
	// NewConversation begins a new conversation in a session for a person.
	NewConversation func(tx *db.Tx, sessionID, by string) error
	// Model returns the name of the model that answers next in a session.
	Model func(q db.Queryer, sessionID string) string
	// Selectable returns the models that people can choose.
	Selectable func() []string
	// Choose makes a model that of a session, "" the configured one. The event with the
	// given id announces it.
	Choose func(tx *db.Tx, sessionID, eventID, model string) error
}

// Service answers the interactions of one platform.
type Service struct {
	// Asker begins requests. Set it before the adapter runs: the router needs the
	// adapter, and the adapter this Service.
	Asker

	o    Options
	core kernel.Core[string, State, Input, Effect]
}

// New returns a service.
func New(o Options) *Service {
	s := &Service{o: o}
	s.core = kernel.Core[string, State, Input, Effect]{
		Load: func(tx *db.Tx, requestID string) (State, error) {
			r, err := o.Sessions.Request(tx, requestID)
			return State{Request: r}, err
		},
		Decide: Decide,
		Save:   func(*db.Tx, string, State, State) error { return nil }, // the state is read-only
		Carry:  carry,
	}
	return s
}

// Running returns the request that a channel works on, "" for none.
func (s *Service) Running(ctx context.Context, channelID string) (requestID string, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		state, err := s.o.Sessions.State(q, channelID)
		if err == nil && state.Active != nil {
			requestID = state.Active.RequestID
		}
		return err
	})
	return requestID, err
}

// Askers returns the ids of the people whose messages a request answers.
func (s *Service) Askers(ctx context.Context, requestID string) (ids []string, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		found, err := s.askers(q, requestID)
		for _, a := range found {
			ids = append(ids, a.UserID)
		}
		return err
	})
	return ids, err
}

// Asked returns the people whose messages a request answers, each once, in the order in which
// they asked. Nobody has asked for a request that is unknown or whose messages are damaged.
func (s *Service) Asked(q db.Queryer, requestID string) ([]Asked, error) {
	found, err := s.askers(q, requestID)
	if fault.KindOf(err) == fault.NotFound || db.IsDamaged(err) {
		return nil, nil
	}
	return found, err
}

func (s *Service) askers(q db.Queryer, requestID string) ([]Asked, error) {
	requestID, err := s.o.Origins.OriginRequest(q, requestID)
	if err != nil {
		return nil, err
	}
	id, err := event.ParseRequestID(requestID)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "There is no such request.")
	}
	story, err := s.o.Sessions.Story(q, requestID)
	if err != nil {
		return nil, err
	}
	var inputs []input
	for _, m := range story.Messages {
		mail, err := s.o.Sessions.Mail(q, story.SessionID, m.MessageID)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, input{m.CreatedAt, mail.Messages})
	}
	return askers(id, inputs), nil
}

// Stop cancels a request for a person who may do that.
func (s *Service) Stop(tx *db.Tx, requestID string, by surface.User) error {
	_, _, err := s.core.Apply(tx, requestID, StopPressed{By: by})
	return err
}

// Answer answers the question of a request, by the number of the pause and the index of the
// answer.
func (s *Service) Answer(tx *db.Tx, requestID string, pause, answer int, by surface.User) error {
	r, err := s.o.Sessions.Request(tx, requestID)
	if err != nil {
		return err
	}
	state, err := s.o.Sessions.State(tx, r.SessionID)
	if err != nil {
		return err
	}
	open := state.OpenQuestion(r)
	in := session.PauseAnswer{
		Pause: pause, Name: "@" + plainName(by.Name), By: grant.Person{ID: by.ID, Roles: by.Roles, RolesKnown: by.Roles != nil},
	}
	if open.Pause != nil {
		in.Answer, in.Reply = open.Pause.AnswerAt(answer)
	}
	_, err = session.AnswerPause(tx, open, in)
	return err
}

// Status returns a sentence about what a channel works on.
func (s *Service) Status(ctx context.Context, channelID string) (text string, err error) {
	var state State
	err = s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		state.Model = s.o.Model(q, channelID)
		if state.Session, err = s.o.Sessions.State(q, channelID); err != nil || state.Session.Active == nil || state.Session.OpenPause() != nil {
			return err
		}
		state.Request, err = s.o.Sessions.Request(q, state.Session.Active.RequestID)
		return err
	})
	if err != nil {
		return "", err
	}
	_, effects := Decide(state, StatusAsked{}, time.Now())
	for _, e := range effects {
		if reply, ok := e.(Reply); ok {
			text = reply.Text
		}
	}
	return text, nil
}

// Queue lists what a channel works on and the questions that wait.
func (s *Service) Queue(ctx context.Context, channelID string) (text string, err error) {
	var state State
	err = s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		if state.Session, err = s.o.Sessions.State(q, channelID); err != nil {
			return err
		}
		if a := state.Session.Active; a != nil {
			if state.Request, err = s.o.Sessions.Request(q, a.RequestID); err != nil {
				return err
			}
			if state.Current, err = s.question(q, a.RequestID); err != nil {
				return err
			}
		}
		for _, w := range state.Session.Queue[:min(len(state.Session.Queue), maxListed)] {
			question, err := s.firstMessage(q, channelID, w.Messages)
			if err != nil {
				return err
			}
			state.Waiting = append(state.Waiting, question)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	_, effects := Decide(state, QueueAsked{}, time.Now())
	for _, e := range effects {
		if reply, ok := e.(Reply); ok {
			text = reply.Text
		}
	}
	return text, nil
}

// question returns the first question that a request answers.
func (s *Service) question(q db.Queryer, requestID string) (Question, error) {
	story, err := s.o.Sessions.Story(q, requestID)
	if err != nil || len(story.Messages) == 0 {
		return Question{}, err
	}
	return s.mail(q, story.SessionID, story.Messages[0].MessageID)
}

func (s *Service) firstMessage(q db.Queryer, sessionID string, messages []session.PendingMessage) (Question, error) {
	if len(messages) == 0 {
		return Question{}, nil
	}
	return s.mail(q, sessionID, messages[0].MessageID)
}

// mail returns the question of a message in the mailbox. A damaged or unknown
// message is an empty question.
func (s *Service) mail(q db.Queryer, sessionID, messageID string) (Question, error) {
	m, err := s.o.Sessions.Mail(q, sessionID, messageID)
	if fault.KindOf(err) == fault.NotFound || db.IsDamaged(err) || err == nil && len(m.Messages) == 0 {
		return Question{}, nil
	}
	if err != nil {
		return Question{}, err
	}
	return questionOf(m.Messages[len(m.Messages)-1]), nil
}

// NewConversation begins a new conversation in a channel for a person.
func (s *Service) NewConversation(tx *db.Tx, channelID string, by surface.User) error {
	return s.o.NewConversation(tx, channelID, "@"+plainName(by.Name))
}

// Paused reports whether a request waits at a limit for a person's reply.
func (s *Service) Paused(q db.Queryer, requestID string) (bool, error) {
	r, err := s.o.Sessions.Request(q, requestID)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	state, err := s.o.Sessions.State(q, r.SessionID)
	return err == nil && state.Active != nil && state.Active.RequestID == requestID && state.OpenPause() != nil, err
}

// carry carries out the effects that belong to the transaction.
func carry(tx *db.Tx, requestID string, s State, e Effect) error {
	switch e := e.(type) {
	case Cancel:
		cancel, err := event.New(event.Meta{ID: "stop:" + requestID, Time: tx.Now(), Headers: event.RequestHeaders(requestID, s.Request.SessionID, s.Request.Client)},
			event.RequestCancel{Reason: e.Reason})
		if err != nil {
			return err
		}
		return tx.Publish(cancel)
	case Reply:
		return nil // Status returns it
	default:
		return fmt.Errorf("unknown effect %T", e)
	}
}
