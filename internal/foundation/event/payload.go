package event

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// Queue says how a message meets the work of its session.
type Queue string

// The queue modes.
const (
	Prompt    Queue = "prompt"
	Steer     Queue = "steer"
	FollowUp  Queue = "followUp"
	Interrupt Queue = "interrupt"
)

// Valid reports whether q is a queue mode.
func (q Queue) Valid() bool {
	switch q {
	case Prompt, Steer, FollowUp, Interrupt:
		return true
	}
	return false
}

// RequestState is a state in the life of a request.
type RequestState string

// The states of a request. The last three are end states.
const (
	StateQueued    RequestState = "queued"
	StateRunning   RequestState = "running"
	StateStreaming RequestState = "streaming"
	StateDone      RequestState = "done"
	StateFailed    RequestState = "failed"
	StateCancelled RequestState = "cancelled"
)

// Ended reports whether s is an end state.
func (s RequestState) Ended() bool {
	return s == StateDone || s == StateFailed || s == StateCancelled
}

// AdapterMessage is a message that a platform delivered.
type AdapterMessage struct {
	// Updated says that the message was edited; it decides the event type.
	Updated     bool            `json:"-"`
	Platform    string          `json:"platform"`
	ChannelID   string          `json:"channelId"`
	ChannelName string          `json:"channelName,omitempty"`
	MessageID   string          `json:"messageId"`
	UserID      string          `json:"userId"`
	UserName    string          `json:"userName,omitempty"`
	Text        string          `json:"text"`
	TS          int64           `json:"ts"`
	Raw         json.RawMessage `json:"raw,omitempty"`
}

// AdapterDeletion is the deletion of a message on a platform.
type AdapterDeletion struct {
	Platform  string          `json:"platform"`
	ChannelID string          `json:"channelId"`
	MessageID string          `json:"messageId"`
	TS        int64           `json:"ts"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}

// AdapterReaction is a reaction that was added or removed. Without a user
// everybody's were removed, and without a reaction all of them.
type AdapterReaction struct {
	Removed   bool            `json:"-"`
	Platform  string          `json:"platform"`
	ChannelID string          `json:"channelId"`
	MessageID string          `json:"messageId"`
	UserID    string          `json:"userId,omitempty"`
	Reaction  string          `json:"reaction"`
	TS        int64           `json:"ts"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}

// RequestMessage asks the runner to take messages into a session's work. A
// prompt whose last message is one of the assistant is said as it is, without a
// model.
type RequestMessage struct {
	Queue    Queue          `json:"queue"`
	Messages []chat.Message `json:"messages"`
	// MessageID names this message for exactly-once and for what is said
	// about it later (evt.request.message.applied).
	MessageID string `json:"messageId"`
	// ElseRequestID is the request that the message becomes when the one it
	// was meant for is over; see [ElseRequest] for the default.
	ElseRequestID string `json:"elseRequestId,omitempty"`
	// AnyActive applies a steer, followUp or interrupt to whatever runs.
	AnyActive bool `json:"anyActive,omitempty"`
	// AnswersPause makes the message an answer to that pause of the request
	// and nothing else: when the pause is over, the message is dropped.
	AnswersPause int             `json:"answersPause,omitempty"`
	Raw          json.RawMessage `json:"raw,omitempty"`
}

// RequestCancel stops a request.
type RequestCancel struct {
	Reason string `json:"reason,omitempty"`
	// CancelQueued also cancels what waits behind it in the session.
	CancelQueued bool `json:"cancelQueued,omitempty"`
	// AnyActive means what runs in the session when it arrives, or would run
	// next; the event's own request id is none of a request then.
	AnyActive bool `json:"anyActive,omitempty"`
}

// RequestLifecycle says that a request changed its state.
type RequestLifecycle struct {
	State  RequestState `json:"state"`
	Detail string       `json:"detail,omitempty"`
	// ErrorKind is what sort of trouble a failed request ended with.
	ErrorKind fault.Kind `json:"errorKind,omitempty"`
	// Paused says that the request waits for an answer to Detail: nothing of
	// it runs, and it says nothing until it is answered.
	Paused bool  `json:"paused,omitempty"`
	TS     int64 `json:"ts"`
}

// UnmarshalJSON reads "resolved", a word of older producers, as "done".
func (l *RequestLifecycle) UnmarshalJSON(data []byte) error {
	type plain RequestLifecycle
	if err := json.Unmarshal(data, (*plain)(l)); err != nil {
		return err
	}
	if l.State == "resolved" {
		l.State = StateDone
	}
	return nil
}

// MessageApplied says which request (of the header) a message ended up in,
// and how.
type MessageApplied struct {
	MessageID string `json:"messageId"`
	Queue     Queue  `json:"queue"`
	// Offset is the byte offset in the request's text at which it was applied.
	Offset int64 `json:"offset"`
}

// RequestReply asks for a relay of the request's output.
type RequestReply struct{}

// TextDelta is a piece of the answer's text, whole runes.
type TextDelta struct {
	Delta string `json:"delta"`
	Seq   int64  `json:"seq"`
	// Offset is the byte offset of the delta in the request's text.
	Offset int64 `json:"offset"`
}

// ReasoningDelta is a piece of the model's reasoning.
type ReasoningDelta struct {
	Delta string `json:"delta"`
	Seq   int64  `json:"seq"`
}

// TextReset cuts the request's text back to Offset bytes.
type TextReset struct {
	Offset int64 `json:"offset"`
}

// OutputAnchor says that a steer or an interrupt was applied here.
type OutputAnchor struct {
	MessageID string `json:"messageId"`
	Offset    int64  `json:"offset"`
}

// OutputActivity says that a silent model or tool is still at work.
type OutputActivity struct{}

// ToolStatus is a point in the life of a tool call.
type ToolStatus string

// The states of a tool call.
const (
	ToolStart  ToolStatus = "start"
	ToolUpdate ToolStatus = "update"
	ToolEnd    ToolStatus = "end"
)

// ToolCallOutput shows a tool call as it proceeds. Name, Args and Output are
// for those who show more than the one-line display. A call that a stop kept from
// beginning has its end alone. Of a long Output or Error
// only the beginning is here; it is Truncated then.
type ToolCallOutput struct {
	ToolCallID string          `json:"toolCallId"`
	Status     ToolStatus      `json:"status"`
	Display    string          `json:"display"`
	Name       string          `json:"name,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
	Output     string          `json:"output,omitempty"`
	OK         *bool           `json:"ok,omitempty"`
	Error      string          `json:"error,omitempty"`
	Truncated  bool            `json:"truncated,omitempty"`
}

// BinaryOutput is a file that the agent hands over: its bytes when they are
// few, else a reference into the blob store.
type BinaryOutput struct {
	BinaryID   string `json:"binaryId"`
	MimeType   string `json:"mimeType"`
	Filename   string `json:"filename,omitempty"`
	DataBase64 string `json:"dataBase64,omitempty"`
	Blob       string `json:"blob,omitempty"`
	// Bytes is how large the file is, Path where it lies in the workspace; zero
	// and empty when that is not known.
	Bytes int64  `json:"bytes,omitempty"`
	Path  string `json:"path,omitempty"`
}

// FinalText is the last event of an output topic.
type FinalText struct {
	FinalText string `json:"finalText"`
	// Delivery is "reply" (the default) or "skip".
	Delivery string      `json:"delivery,omitempty"`
	Usage    *chat.Usage `json:"usage,omitempty"`
}

// SurfaceReanchor moves a running output to another message.
type SurfaceReanchor struct {
	InheritReplyTo bool            `json:"inheritReplyTo"`
	ReplyTo        *MessageRef     `json:"replyTo,omitempty"`
	Mode           json.RawMessage `json:"mode,omitempty"`
	MessageID      string          `json:"messageId,omitempty"`
}

// MessageRef names a message on a platform.
type MessageRef struct {
	Platform  string `json:"platform"`
	ChannelID string `json:"channelId"`
	MessageID string `json:"messageId"`
}

// SurfaceMessageCreated says that a relay made a message.
type SurfaceMessageCreated struct {
	MsgRef MessageRef `json:"msgRef"`
}

// EnvEvent is an environment event, exactly as its specification has it.
type EnvEvent struct {
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Timestamp is Unix milliseconds.
	Timestamp int64           `json:"timestamp"`
	Metadata  EnvMetadata     `json:"metadata"`
	Payload   json.RawMessage `json:"payload"`
}

// EventType is the event's own type: "env" is an open catalog.
func (e EnvEvent) EventType() Type { return e.Type }

// EventType implements [Payload].
func (m AdapterMessage) EventType() Type {
	if m.Updated {
		return AdapterMessageUpdated
	}
	return AdapterMessageCreated
}

// EventType implements [Payload].
func (AdapterDeletion) EventType() Type { return AdapterMessageDeleted }

// EventType implements [Payload].
func (r AdapterReaction) EventType() Type {
	if r.Removed {
		return AdapterReactionRemoved
	}
	return AdapterReactionAdded
}

// EventType implements [Payload].
func (RequestMessage) EventType() Type { return CmdRequestMessage }

// EventType implements [Payload].
func (RequestCancel) EventType() Type { return CmdRequestCancel }

// EventType implements [Payload].
func (RequestLifecycle) EventType() Type { return RequestLifecycleChanged }

// EventType implements [Payload].
func (MessageApplied) EventType() Type { return RequestMessageApplied }

// EventType implements [Payload].
func (RequestReply) EventType() Type { return RequestReplyStarted }

// EventType implements [Payload].
func (TextDelta) EventType() Type { return OutputDeltaText }

// EventType implements [Payload].
func (ReasoningDelta) EventType() Type { return OutputDeltaReasoning }

// EventType implements [Payload].
func (TextReset) EventType() Type { return OutputTextReset }

// EventType implements [Payload].
func (OutputAnchor) EventType() Type { return OutputAnchored }

// EventType implements [Payload].
func (OutputActivity) EventType() Type { return OutputActive }

// EventType implements [Payload].
func (ToolCallOutput) EventType() Type { return OutputToolCall }

// EventType implements [Payload].
func (BinaryOutput) EventType() Type { return OutputResponseBinary }

// EventType implements [Payload].
func (FinalText) EventType() Type { return OutputResponseText }

// EventType implements [Payload].
func (SurfaceReanchor) EventType() Type { return CmdSurfaceReanchor }

// EventType implements [Payload].
func (SurfaceMessageCreated) EventType() Type { return SurfaceOutputCreated }
