package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// The priorities of the built-in rules.
const (
	PriorityUserQuery      = 100
	PriorityBackgroundTask = 80
	PrioritySession        = 50
	PriorityFallback       = 10
)

// The system prompts of the built-in rules.
const (
	backgroundTaskSystem = "You are a background task expert. Analyze task results and decide how to handle."
	fallbackSystem       = "You are an event handling expert. Analyze event content and decide: 1) respond to user; 2) continue execution; 3) interact with user for confirmation."
)

// DefaultsOptions are the collaborators of the built-in rules.
type DefaultsOptions struct {
	DB *db.DB
	// Session finds sessions.
	Session Sessions
	// AnswersQuestion reports whether a message answers the question of a request in the
	// session: then OnMessage does not receive it. It may be nil.
	AnswersQuestion func(q db.Queryer, sessionID string, m chat.Message) (bool, error)
	// OnMessage gives a message to the workflows that wait for it, in the transaction
	// that makes it a request, and returns the messages that the request must begin
	// with. It may be nil.
	OnMessage func(tx *db.Tx, sessionID, messageID, text string) ([]chat.Message, error)
	// Member returns what requests of members of the team may use. It may be nil.
	Member func() grant.Tools
	Logger *slog.Logger
}

// DefaultRules returns the built-in rules:
//
//   - a user_query becomes a message for the runner, and a user_stop a cancellation
//   - the end of a background task wakes the agent of its session, unless the agent
//     itself has stopped the task
//   - session events are logged
//   - all other events wake the agent, unless they only describe
func DefaultRules(p DefaultsOptions) []Rule {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return []Rule{
		{
			Name: "user_query", Types: []string{string(event.UserQuery)}, Enabled: true, Priority: PriorityUserQuery,
			Action: Function(p.userQuery), reads: p.readsOfUserQuery,
		},
		{Name: "session", Types: []string{"session.*"}, Enabled: true, Priority: PrioritySession, Action: Function(p.logSession)},
		{
			Name: "background_task", Enabled: true, Priority: PriorityBackgroundTask, Action: &Agent{System: backgroundTaskSystem},
			Types: []string{string(event.BackgroundTaskCompleted), string(event.BackgroundTaskFailed), string(event.BackgroundTaskTimeout)},
		},
		{Name: "fallback", Types: []string{"*"}, Enabled: true, Priority: PriorityFallback, Fallback: true, Action: &Agent{System: fallbackSystem}},
		{
			Name: "background_task_stopped", Enabled: true, Priority: PriorityBackgroundTask, Action: Drop{},
			Types: []string{string(event.BackgroundTaskStopped)}, If: stoppedByAgent,
		},
		{Name: "user_stop", Types: []string{string(event.UserStop)}, Enabled: true, Priority: PriorityUserQuery, Action: Function(p.userStop)},
	}
}

// stoppedByAgent reports whether the agent itself has stopped a background task: then it
// knows from the result of its tool.
func stoppedByAgent(_ context.Context, s Subject) (bool, error) {
	var p struct {
		StoppedBy string `json:"stoppedBy"`
	}
	return json.Unmarshal(s.event.Payload, &p) == nil && p.StoppedBy == "agent", nil
}

// userQuery sends the message to the runner and commits the event in one transaction. Like
// [Service.act], it does not wait for the disk.
func (p DefaultsOptions) userQuery(ctx context.Context, d bus.Delivery, e event.EnvEvent) error {
	query, message, err := decodeUserQuery(e)
	if err != nil {
		return bus.Permanent(err)
	}
	return p.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		tx.Ahead(func(tx *db.Tx) { p.readsOfUserQuery(tx, e) })
		known, err := p.sessionExists(tx, query.SessionID)
		if err != nil {
			return err
		}
		if !known {
			p.Logger.WarnContext(ctx, "dropped a user query for an unknown session", "event_id", e.ID, "session_id", query.SessionID)
			return d.Ack(tx)
		}
		before, err := p.notifyWaiting(tx, query, message)
		if err != nil {
			return err
		}
		ev, err := p.requestMessage(e, query, append(before, message))
		if err != nil {
			return bus.Permanent(err)
		}
		if trace := d.Headers[event.HeaderTraceParent]; trace != "" {
			ev.Headers = ev.Headers.With(event.HeaderTraceParent, trace)
		}
		if err := tx.Publish(ev); err != nil {
			return fmt.Errorf("publish message for the runner: %w", err)
		}
		return d.Ack(tx)
	})
}

// readsOfUserQuery announces the reads of userQuery.
func (p DefaultsOptions) readsOfUserQuery(tx *db.Tx, e event.EnvEvent) {
	query, message, err := decodeUserQuery(e)
	if err != nil {
		return // userQuery reports it
	}
	_, _ = p.sessionExists(tx, query.SessionID)
	_, _ = p.notifyWaiting(tx, query, message)
}

// notifyWaiting gives a message to the workflows that wait for it, unless it answers a
// question.
func (p DefaultsOptions) notifyWaiting(tx *db.Tx, query event.UserQueryPayload, m chat.Message) (before []chat.Message, err error) {
	if p.AnswersQuestion != nil {
		answers, err := p.AnswersQuestion(tx, query.SessionID, m)
		if err != nil {
			return nil, fmt.Errorf("check whether a message is an answer: %w", err)
		}
		if answers {
			return nil, nil
		}
	}
	if p.OnMessage == nil {
		return nil, nil
	}
	if before, err = p.OnMessage(tx, query.SessionID, query.MessageID, query.Content); err != nil {
		return nil, fmt.Errorf("pass message to workflows: %w", err)
	}
	return before, nil
}

// sessionExists reports whether a session exists.
func (p DefaultsOptions) sessionExists(q db.Queryer, sessionID string) (bool, error) {
	if p.Session.Client == nil {
		return true, nil
	}
	_, known, err := p.Session.Client(q, sessionID)
	if err != nil {
		return false, fmt.Errorf("look up session: %w", err)
	}
	return known, nil
}

// userStop sends a cancellation to the runner, after the messages before it.
func (p DefaultsOptions) userStop(ctx context.Context, d bus.Delivery, e event.EnvEvent) error {
	var stop event.UserStopPayload
	if err := json.Unmarshal(e.Payload, &stop); err != nil {
		return bus.Permanent(fault.Wrap(fault.Invalid, err, "The user_stop %q has an invalid payload.", e.ID))
	}
	requestID := stop.RequestID
	if requestID == "" {
		requestID = event.RequestID{Surface: stop.Client, Session: stop.SessionID, Specific: "stop"}.String()
	}
	ev, err := event.New(event.Meta{
		ID: e.ID + "/cancel", Time: event.Event{TS: e.Timestamp}.Time(), Headers: event.RequestHeaders(requestID, stop.SessionID, stop.Client),
	}, event.RequestCancel{Reason: stop.Reason, CancelQueued: stop.CancelQueued, AnyActive: stop.RequestID == ""})
	if err != nil {
		return bus.Permanent(err)
	}
	return p.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		known, err := p.sessionExists(tx, stop.SessionID)
		if err != nil {
			return err
		}
		if known {
			if err := tx.Publish(ev); err != nil {
				return fmt.Errorf("publish cancellation for the runner: %w", err)
			}
		}
		return d.Ack(tx)
	})
}

// decodeUserQuery returns the payload of a user_query and its message.
func decodeUserQuery(e event.EnvEvent) (q event.UserQueryPayload, m chat.Message, err error) {
	if err := json.Unmarshal(e.Payload, &q); err != nil {
		return q, m, fault.Wrap(fault.Invalid, err, "The user_query %q has an invalid payload.", e.ID)
	}
	if q.Queue == "" {
		q.Queue = event.Prompt
	}
	if !q.Queue.Valid() {
		return q, m, fault.InvalidField("queue", "The user_query %q has the unknown queue mode %q.", e.ID, q.Queue)
	}
	m = chat.Text(chat.User, q.Content)
	if a := q.Author; a != nil {
		m = m.WithAuthor(chat.Author{ID: a.ID, Name: a.Name, MessageID: q.MessageID})
	}
	if len(q.Attachments) > 0 {
		var files []chat.Part
		if err := json.Unmarshal(q.Attachments, &files); err != nil {
			return q, m, fault.Wrap(fault.Invalid, err, "The user_query %q has invalid attachments.", e.ID)
		}
		if len(files) > 0 {
			m.IsString = false
			m.Parts = append(m.Parts, files...)
		}
	}
	return q, m, nil
}

// sourceUser is the source of events that the operator caused through the API.
const sourceUser = "user"

// requestMessage returns the command for a user_query.
func (p DefaultsOptions) requestMessage(e event.EnvEvent, q event.UserQueryPayload, messages []chat.Message) (event.Event, error) {
	command := event.RequestMessage{Queue: q.Queue, Messages: messages, MessageID: q.MessageID}
	if originOf(e) == e.Type {
		switch e.Metadata.Source {
		case sourceUser:
			command.Grant = p.grantOf(q.Author)
		case event.SourceEntry: // a program with a token of its own
			command.Grant = grant.By(grant.Person{ID: q.Client})
		}
	}
	if q.Queue != event.Prompt {
		command.AnyActive, command.ElseRequestID = true, q.ElseRequestID
	}
	return event.New(event.Meta{
		ID:      e.ID + "/message",
		Time:    event.Event{TS: e.Timestamp}.Time(),
		Headers: event.RequestHeaders(q.RequestID, q.SessionID, q.Client),
	}, command)
}

// grantOf returns what requests of a person on the page may use; nil is the operator.
func (p DefaultsOptions) grantOf(a *event.Author) grant.Grant {
	if a == nil || a.Role == "" {
		return grant.By(grant.Person{ID: grant.Operator})
	}
	by := grant.By(grant.Account(a.ID, a.Role))
	if a.Role == grant.Operator || p.Member == nil {
		return by
	}
	return by.And(grant.Of(p.Member()))
}

func (p DefaultsOptions) logSession(ctx context.Context, _ bus.Delivery, e event.EnvEvent) error {
	p.Logger.InfoContext(ctx, "session event", "event_id", e.ID, "type", e.Type, "session_id", e.Metadata.TriggerSessionID)
	return nil
}
