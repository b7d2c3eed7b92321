package app

import (
	"context"
	"encoding/json"
	"fmt"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// questions shows the questions of sub-agents where people are asked. The page, the terminal, and
// the API read the events in the conversation that started the sub-agent; a chat platform gets a
// message with buttons. The relay, which shows the questions of the conversation's own requests,
// shows none of a sub-agent.
type questions struct{ *base }

// maxShownQuestion bounds a question in a message, in bytes; a message on Discord has 2,000
// characters.
const maxShownQuestion = 1800

// observe plans the message about a sub-agent's question. A question is planned once, however
// often its event arrives.
func (a questions) observe(ctx context.Context, e event.EnvEvent) error {
	session := e.Metadata.TriggerSessionID
	if e.Type != event.SessionPaused || e.Metadata.TriggerAgentID == "" || task.IsChild(session) {
		return nil
	}
	var asked event.SessionPausedPayload
	if err := json.Unmarshal(e.Payload, &asked); err != nil {
		return fmt.Errorf("decode a question: %w", err)
	}
	if asked.Again {
		return nil
	}
	err := a.db.Update(ctx, func(tx *db.Tx) error {
		client, _, err := names(a).sessions().ClientOf(tx, session)
		if err != nil {
			return err
		}
		for _, on := range a.platforms {
			if on.adapter.Platform() != client {
				continue
			}
			row := outbox.Row{Key: fmt.Sprintf("ask:%s:%d", asked.RequestID, asked.Pause), RequestID: asked.RequestID, SessionID: session, ExpiresAt: asked.Until}
			row.Send.ChannelID = session
			row.Send.Text = text.Truncate(a.Secrets.Redact(asked.Question), maxShownQuestion)
			row.Send.Buttons = relay.ApprovalButtons(asked.Pause, asked.RequestID)
			if err := on.outbox.Plan(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("show the question of a sub-agent: %w", err)
	}
	return nil
}
