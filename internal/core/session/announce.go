package session

import (
	"encoding/json"
	"fmt"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// maxAnnounced is the maximum length of a request's text in the environment event
// about its end, in bytes. The output topic has the whole text.
const maxAnnounced = 32 << 10

// announce publishes an environment event about the session, caused by a request.
func (c *change) announce(t event.Type, requestID, id string, v any) error {
	m, err := requestMetadata(requestID, "system")
	if err != nil {
		return err
	}
	return c.environment(t, id, v, m)
}

func (c *change) environment(t event.Type, id string, v any, m event.EnvMetadata) error {
	m.TriggerSessionID = c.sessionID
	return environmentOf(c, t, id, v, m)
}

// announceAbove publishes an environment event about a sub-agent's question in the session whose
// people answer it: the one that started the sub-agent. name is that of the task. For other
// sessions, it does nothing.
func announceAbove(c *change, t event.Type, requestID, id string, payload func(task string) any) error {
	_, name, err := c.svc.opt.Surfaces.Agent(c.tx, c.sessionID)
	if err != nil {
		return err
	}
	above, err := c.svc.payer(c.tx, c.sessionID)
	if err != nil || above == c.sessionID {
		return err
	}
	m, err := requestMetadata(requestID, "system")
	if err != nil {
		return err
	}
	m.TriggerSessionID = above
	return environmentOf(c, t, id+":above", payload(name), m)
}

// environmentOf publishes an environment event in the session that its metadata names.
func environmentOf(c *change, t event.Type, id string, v any, m event.EnvMetadata) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	id = boundedEventID(id)
	if m.TriggerAgentID, m.TriggerAgentName, err = c.svc.opt.Surfaces.Agent(c.tx, c.sessionID); err != nil {
		return err
	}
	return c.publish(id, nil, event.EnvEvent{ID: id, Type: t, Timestamp: c.now(), Payload: payload, Metadata: m})
}

// requestMetadata returns the metadata of an event that a request causes.
func requestMetadata(requestID, source string) (event.EnvMetadata, error) {
	raw, err := json.Marshal(requestID)
	if err != nil {
		return event.EnvMetadata{}, fmt.Errorf("encode request id: %w", err)
	}
	return event.EnvMetadata{Source: source, Extra: map[string]json.RawMessage{event.MetadataRequest: raw}}, nil
}

// announceTool publishes the environment event for a tool that has run.
func (c *change) announceTool(requestID string, shown event.ToolCallOutput) error {
	m, err := requestMetadata(requestID, "tool")
	if err != nil {
		return err
	}
	t, payload := event.ToolExecuted, event.ToolPayload{RequestID: requestID, ToolCallID: shown.ToolCallID, Name: shown.Name, Display: shown.Display}
	if shown.Error != "" || shown.OK != nil && !*shown.OK {
		t, payload.Error = event.ToolFailed, shown.Error
	} else {
		payload.Output = shown.Output
	}
	return c.environment(t, fmt.Sprintf("tool:%s:%s", requestID, shown.ToolCallID), payload, m)
}

// announceStream publishes the environment event for the start or end of a request.
// Only rules need it: the event stream derives its events from the output topic, in
// order with the text.
func (c *change) announceStream(e ChangeState) error {
	payload, t := event.StreamPayload{RequestID: e.RequestID}, event.StreamStart
	switch {
	case e.State.Ended():
		t = event.StreamCompleted
		content := ""
		if c.finalOutput != nil {
			content, payload.Usage = c.finalOutput.FinalText, c.finalOutput.Usage
		}
		payload.Truncated = len(content) > maxAnnounced
		content = text.Truncate(content, maxAnnounced)
		payload.Content = &content
		switch e.State {
		case event.StateFailed:
			t = event.StreamError
			payload.Error = &event.StreamErrorPayload{Kind: e.ErrorKind, Message: e.Detail}
		case event.StateCancelled:
			payload.Cancelled, payload.Reason = true, e.Detail
		}
	case e.State != event.StateRunning:
		return nil
	}
	m, err := requestMetadata(e.RequestID, "llm")
	if err != nil {
		return err
	}
	return c.environment(t, string(t)+":"+e.RequestID, payload, m)
}
