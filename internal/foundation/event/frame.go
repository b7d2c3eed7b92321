package event

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
)

// StreamGap is the type of a frame which says that events are missing. It is only on event
// streams.
const StreamGap Type = "stream.gap"

// The payloads below are those of the frames of the event stream (GET /events). Each frame
// is an environment event. The server derives stream.* from the output of requests, so a
// stream.completed on the stream has more than the one that rules receive.

// MessageAppliedFrame is the payload of a session.message_applied: a message has joined a
// request, at an offset of its text in bytes.
type MessageAppliedFrame struct {
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	Queue     Queue  `json:"queue"`
	Offset    int64  `json:"offset"`
}

// StartFrame is the payload of a stream.start: a request runs.
type StartFrame struct {
	RequestID string `json:"requestId"`
}

// TextFrame is the payload of a stream.text. A text at an offset (in bytes) before the end takes
// back what follows the offset.
type TextFrame struct {
	RequestID string `json:"requestId"`
	Content   string `json:"content"`
	Offset    int64  `json:"offset"`
}

// ReasoningFrame is the payload of a stream.reasoning.
type ReasoningFrame struct {
	RequestID string `json:"requestId"`
	Content   string `json:"content"`
}

// ToolCallFrame is the payload of a stream.tool_call.
type ToolCallFrame struct {
	RequestID  string          `json:"requestId"`
	ToolCallID string          `json:"toolCallId"`
	Name       string          `json:"name"`
	Args       json.RawMessage `json:"args,omitempty"`
	// Status is start, update, or end.
	Status    string `json:"status"`
	Display   string `json:"display,omitempty"`
	OK        *bool  `json:"ok,omitempty"`
	Output    string `json:"output,omitempty"`
	Error     string `json:"error,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// EndFrame is the payload of a stream.completed and a stream.error. Error is only in the
// second, and Cancelled and Reason are only in the first.
type EndFrame struct {
	RequestID string   `json:"requestId"`
	Content   string   `json:"content"`
	Notes     []string `json:"notes,omitempty"`
	// Usage is null if it is not known.
	Usage     *chat.Usage         `json:"usage"`
	Error     *StreamErrorPayload `json:"error,omitempty"`
	Cancelled bool                `json:"cancelled,omitempty"`
	Reason    string              `json:"reason,omitempty"`
}

// GapFrame is the payload of a stream.gap. Without a request, events of the whole topic are
// missing.
type GapFrame struct {
	RequestID string `json:"requestId,omitempty"`
	Topic     string `json:"topic"`
	Message   string `json:"message"`
}

// Frames returns a zero payload for each type of frame that exists only on the event stream,
// or that has another payload there than for rules.
func Frames() map[Type]any {
	return map[Type]any{
		SessionMessageApplied: MessageAppliedFrame{}, StreamStart: StartFrame{}, StreamText: TextFrame{}, StreamReasoning: ReasoningFrame{},
		StreamToolCall: ToolCallFrame{}, StreamFile: StreamFilePayload{}, StreamCompleted: EndFrame{}, StreamError: EndFrame{}, StreamGap: GapFrame{},
	}
}
