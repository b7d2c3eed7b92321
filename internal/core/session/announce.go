package session

import (
	"encoding/json"
	"fmt"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// maxAnnounced bounds the text of a request in the environment event that says
// how it ended; the whole of it is in its output.
const maxAnnounced = 32 << 10

// announce publishes an environment event about the session, which a request
// has caused.
func (c *change) announce(t event.Type, requestID, id string, v any) error {
	m, err := requestMetadata(requestID, "system")
	if err != nil {
		return err
	}
	return c.environment(t, id, v, m)
}

func (c *change) environment(t event.Type, id string, v any, m event.EnvMetadata) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", t, err)
	}
	id, m.TriggerSessionID = boundedEventID(id), c.sessionID
	return c.publish(id, nil, event.EnvEvent{ID: id, Type: t, Timestamp: c.now(), Payload: payload, Metadata: m})
}

// requestMetadata is the metadata of what a request causes.
func requestMetadata(requestID, source string) (event.EnvMetadata, error) {
	raw, err := json.Marshal(requestID)
	if err != nil {
		return event.EnvMetadata{}, fmt.Errorf("encode request id: %w", err)
	}
	return event.EnvMetadata{Source: source, Extra: map[string]json.RawMessage{event.MetadataRequest: raw}}, nil
}

// announceTool tells the environment that a tool has run. The model that
// called it has the result already.
func (c *change) announceTool(requestID string, shown event.ToolCallOutput) error {
	m, err := requestMetadata(requestID, "tool")
	if err != nil {
		return err
	}
	t, said := event.ToolExecuted, event.ToolPayload{RequestID: requestID, ToolCallID: shown.ToolCallID, Name: shown.Name, Display: shown.Display}
	if shown.Error != "" || shown.OK != nil && !*shown.OK {
		t, said.Error = event.ToolFailed, shown.Error
	} else {
		said.Output = shown.Output
	}
	return c.environment(t, fmt.Sprintf("tool:%s:%s", requestID, shown.ToolCallID), said, m)
}

// announceStream tells rules that a request began or ended. Readers of the
// event stream are told by its output, in order with its text.
func (c *change) announceStream(e ChangeState) error {
	said, t := event.StreamPayload{RequestID: e.RequestID}, event.StreamStart
	switch {
	case e.State.Ended():
		t = event.StreamCompleted
		content := ""
		if c.finalOutput != nil {
			content, said.Usage = c.finalOutput.FinalText, c.finalOutput.Usage
		}
		said.Truncated = len(content) > maxAnnounced
		content = text.Truncate(content, maxAnnounced)
		said.Content = &content
		switch e.State {
		case event.StateFailed:
			t = event.StreamError
			said.Error = &event.StreamErrorPayload{Kind: e.ErrorKind, Message: e.Detail}
		case event.StateCancelled:
			said.Cancelled, said.Reason = true, e.Detail
		}
	case e.State != event.StateRunning:
		return nil
	}
	m, err := requestMetadata(e.RequestID, "llm")
	if err != nil {
		return err
	}
	return c.environment(t, string(t)+":"+e.RequestID, said, m)
}
