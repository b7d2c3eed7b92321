package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"lilac/internal/bus"
	"lilac/internal/chat"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// Priorities of the rules that come with the program.
const (
	PriorityUserQuery      = 100
	PriorityBackgroundTask = 80
	PrioritySession        = 50
	PriorityFallback       = 10
)

// The agents of the default rules.
const (
	backgroundTaskSystem = "You are a background task expert. Analyze task results and decide how to handle."
	fallbackSystem       = "You are an event handling expert. Analyze event content and decide: 1) respond to user; 2) continue execution; 3) interact with user for confirmation."
)

// Ports are what the rules that come with the program need.
type Ports struct {
	DB *db.DB
	// Session finds sessions.
	Session Sessions
	// Hear tells who waits for a message of the conversation that one came, in
	// the transaction that makes it a request, and returns what the request has
	// to begin with. Nil tells nobody.
	Hear   func(tx *db.Tx, sessionID, messageID, text string) ([]chat.Message, error)
	Logger *slog.Logger
}

// DefaultRules are the rules that come with the program: a user_query becomes
// a message for the runner and a user_stop a cancellation, the end of a background task wakes the agent of its
// session unless the agent itself has stopped it, session events are logged, and
// anything else that does not only describe wakes the agent, too.
func DefaultRules(p Ports) []Rule {
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return []Rule{
		{Name: "user_query", Types: []string{string(event.UserQuery)}, Enabled: true, Priority: PriorityUserQuery, Handler: p.userQuery},
		{Name: "session", Types: []string{"session.*"}, Enabled: true, Priority: PrioritySession, Handler: p.logSession},
		{
			Name: "background_task", Enabled: true, Priority: PriorityBackgroundTask, Agent: &Agent{System: backgroundTaskSystem},
			Types: []string{string(event.BackgroundTaskCompleted), string(event.BackgroundTaskFailed), string(event.BackgroundTaskTimeout)},
		},
		{Name: "fallback", Types: []string{"*"}, Enabled: true, Priority: PriorityFallback, Agent: &Agent{System: fallbackSystem}},
		{
			Name: "background_task_stopped", Enabled: true, Priority: PriorityBackgroundTask, Drop: true,
			Types: []string{string(event.BackgroundTaskStopped)}, If: stoppedByAgent,
		},
		{Name: "user_stop", Types: []string{string(event.UserStop)}, Enabled: true, Priority: PriorityUserQuery, Handler: p.userStop},
	}
}

// stoppedByAgent holds for a background task that the agent stopped itself: its
// tool has told it.
func stoppedByAgent(_ context.Context, s Subject) (bool, error) {
	var p struct {
		StoppedBy string `json:"stoppedBy"`
	}
	return json.Unmarshal(s.event.Payload, &p) == nil && p.StoppedBy == "agent", nil
}

// userQuery hands the message to the runner and commits the event in one
// transaction: there is no moment in which one is done and the other is not. As
// in [Service.act] there is no wait for the disk.
func (p Ports) userQuery(ctx context.Context, d bus.Delivery, e event.EnvEvent) error {
	_, query, err := requestMessage(e)
	if err != nil {
		return bus.Permanent(err)
	}
	return p.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		known, err := p.knows(tx, query.SessionID)
		if err != nil {
			return err
		}
		if !known {
			p.Logger.WarnContext(ctx, "user query for an unknown session", "event_id", e.ID, "session_id", query.SessionID)
			return d.Ack(tx)
		}
		var before []chat.Message
		if p.Hear != nil {
			if before, err = p.Hear(tx, query.SessionID, query.MessageID, query.Content); err != nil {
				return fmt.Errorf("tell who waits for a message: %w", err)
			}
		}
		ev, _, err := requestMessage(e, before...)
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

// knows reports whether there is a session.
func (p Ports) knows(q db.Queryer, sessionID string) (bool, error) {
	if p.Session.Client == nil {
		return true, nil
	}
	_, known, err := p.Session.Client(q, sessionID)
	if err != nil {
		return false, fmt.Errorf("look up session: %w", err)
	}
	return known, nil
}

// userStop hands a cancellation to the runner, behind the message that it follows.
func (p Ports) userStop(ctx context.Context, d bus.Delivery, e event.EnvEvent) error {
	var stop event.UserStopPayload
	if err := json.Unmarshal(e.Payload, &stop); err != nil {
		return bus.Permanent(fault.Wrap(fault.Invalid, err, "The user_stop %q has a payload of another shape.", e.ID))
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
		known, err := p.knows(tx, stop.SessionID)
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

// requestMessage is the command that a user_query becomes; before is what is
// said before the message.
func requestMessage(e event.EnvEvent, before ...chat.Message) (event.Event, event.UserQueryPayload, error) {
	var q event.UserQueryPayload
	if err := json.Unmarshal(e.Payload, &q); err != nil {
		return event.Event{}, q, fault.Wrap(fault.Invalid, err, "The user_query %q has a payload of another shape.", e.ID)
	}
	if q.Queue == "" {
		q.Queue = event.Prompt
	}
	if !q.Queue.Valid() {
		return event.Event{}, q, fault.InvalidField("queue", "The user_query %q has the unknown queue mode %q.", e.ID, q.Queue)
	}
	message := chat.Text(chat.User, q.Content)
	if len(q.Attachments) > 0 {
		var files []chat.Part
		if err := json.Unmarshal(q.Attachments, &files); err != nil {
			return event.Event{}, q, fault.Wrap(fault.Invalid, err, "The user_query %q has attachments of another shape.", e.ID)
		}
		if len(files) > 0 {
			message.IsString = false
			message.Parts = append(message.Parts, files...)
		}
	}
	command := event.RequestMessage{Queue: q.Queue, Messages: append(before, message), MessageID: q.MessageID}
	if q.Queue != event.Prompt {
		command.AnyActive, command.ElseRequestID = true, q.ElseRequestID
	}
	ev, err := event.New(event.Meta{
		ID:      e.ID + "/message",
		Time:    event.Event{TS: e.Timestamp}.Time(),
		Headers: event.RequestHeaders(q.RequestID, q.SessionID, q.Client),
	}, command)
	return ev, q, err
}

func (p Ports) logSession(ctx context.Context, _ bus.Delivery, e event.EnvEvent) error {
	p.Logger.InfoContext(ctx, "session event", "event_id", e.ID, "type", e.Type, "session_id", e.Metadata.TriggerSessionID)
	return nil
}
