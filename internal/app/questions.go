package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// questions shows the questions of sub-agents where people are asked. The page, the terminal, and
// the API read the events in the conversation that started the sub-agent; a chat platform gets a
// message with buttons. The relay, which shows the questions of the conversation's own requests,
// shows none of a sub-agent.
type questions struct {
	*base
	answered chan answeredQuestion
}

// answeredQuestion is a question whose message says how it was answered.
type answeredQuestion struct {
	session string
	event.SessionResumedPayload
}

const (
	// maxShownQuestion bounds a question in a message, in bytes; a message on Discord has 2,000
	// characters.
	maxShownQuestion = 1800
	// sentWait bounds the wait for the message that is edited.
	sentWait = time.Minute
	// maxAnswered bounds the answered questions whose messages wait to be edited.
	maxAnswered = 100
)

func newQuestions(b *base) *questions {
	return &questions{base: b, answered: make(chan answeredQuestion, maxAnswered)}
}

// observe plans the message about a sub-agent's question, or notes that it was answered. A
// question is planned once, however often its event arrives.
func (a *questions) observe(ctx context.Context, e event.EnvEvent) error {
	session := e.Metadata.TriggerSessionID
	if e.Metadata.TriggerAgentID == "" || task.IsChild(session) {
		return nil
	}
	switch e.Type {
	case event.SessionPaused:
		var asked event.SessionPausedPayload
		if err := json.Unmarshal(e.Payload, &asked); err != nil {
			return fmt.Errorf("decode a question: %w", err)
		}
		if asked.Again {
			return nil
		}
		return a.show(ctx, session, asked)
	case event.SessionResumed:
		answered := answeredQuestion{session: session}
		if err := json.Unmarshal(e.Payload, &answered.SessionResumedPayload); err != nil {
			return fmt.Errorf("decode an answer: %w", err)
		}
		select {
		case a.answered <- answered:
		default: // its buttons stay, and say that nothing waits any more
		}
	}
	return nil
}

// show plans the message about a question.
func (a *questions) show(ctx context.Context, session string, asked event.SessionPausedPayload) error {
	err := a.db.Update(ctx, func(tx *db.Tx) error {
		on, err := a.platformOf(tx, session)
		if err != nil || on == nil {
			return err
		}
		row := outbox.Row{Key: questionKey(asked.RequestID, asked.Pause), RequestID: asked.RequestID, SessionID: session, ExpiresAt: asked.Until}
		row.Send.ChannelID = session
		row.Send.Text = text.Truncate(a.Secrets.Redact(asked.Question), maxShownQuestion)
		row.Send.Buttons = relay.ApprovalButtons(asked.Pause, asked.RequestID)
		return on.outbox.Plan(tx, row)
	})
	if err != nil {
		return fmt.Errorf("show the question of a sub-agent: %w", err)
	}
	return nil
}

// run edits the messages of answered questions until ctx ends. An edit that fails, or that the
// program dies over, leaves buttons that say that nothing waits any more.
func (a *questions) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-a.answered:
			if err := a.close(ctx, q); err != nil && ctx.Err() == nil {
				a.Logger.WarnContext(ctx, "the message of an answered question was not edited", "request_id", q.RequestID, "error", fault.ToWire(err).Message)
			}
		}
	}
}

// close replaces the buttons of a question by its answer.
func (a *questions) close(ctx context.Context, q answeredQuestion) error {
	var on *platform
	err := a.db.Read(ctx, func(r db.Queryer) (err error) {
		on, err = a.platformOf(r, q.session)
		return err
	})
	if err != nil || on == nil {
		return err
	}
	// After a crash, the outbox may still look for the message.
	ctx, cancel := context.WithTimeout(ctx, sentWait)
	defer cancel()
	row, err := on.outbox.Wait(ctx, questionKey(q.RequestID, q.Pause))
	if err != nil || row.State != outbox.Sent {
		return err
	}
	content := surface.Content{Text: row.Send.Text + "\n-# " + text.SingleLine(relay.ApprovalOutcome(q.Answer, q.By))}
	return on.adapter.Edit(ctx, event.MessageRef{Platform: on.adapter.Platform(), ChannelID: q.session, MessageID: row.MessageID}, content)
}

// platformOf returns the chat platform of a session, or nil.
func (a *questions) platformOf(q db.Queryer, session string) (*platform, error) {
	client, _, err := names{a.base}.sessions().ClientOf(q, session)
	if err != nil {
		return nil, err
	}
	for _, on := range a.platforms {
		if on.adapter.Platform() == client {
			return on, nil
		}
	}
	return nil, nil
}

// questionKey is the key of the message about a question.
func questionKey(requestID string, pause int) string {
	return fmt.Sprintf("ask:%s:%d", requestID, pause)
}
