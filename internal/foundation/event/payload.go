package event

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// Queue is the mode in which a message joins the work of its session.
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

// RequestState is a state of a request.
type RequestState string

// The states of a request. The last three are final.
const (
	StateQueued    RequestState = "queued"
	StateRunning   RequestState = "running"
	StateStreaming RequestState = "streaming"
	StateDone      RequestState = "done"
	StateFailed    RequestState = "failed"
	StateCancelled RequestState = "cancelled"
)

// Ended reports whether s is a final state.
func (s RequestState) Ended() bool {
	return s == StateDone || s == StateFailed || s == StateCancelled
}

// AdapterMessage is a message that a platform delivered.
type AdapterMessage struct {
	// Updated reports that the message was edited. It determines the event type.
	Updated     bool   `json:"-"`
	Platform    string `json:"platform"`
	ChannelID   string `json:"channelId"`
	ChannelName string `json:"channelName,omitempty"`
	MessageID   string `json:"messageId"`
	UserID      string `json:"userId"`
	UserName    string `json:"userName,omitempty"`
	// Text is plain text with names instead of mentions. Raw has, under the platform's name,
	// the original in "content", and the platform's facts.
	Text string          `json:"text"`
	TS   int64           `json:"ts"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// AdapterDeletion is the deletion of a message on a platform.
type AdapterDeletion struct {
	Platform  string          `json:"platform"`
	ChannelID string          `json:"channelId"`
	MessageID string          `json:"messageId"`
	TS        int64           `json:"ts"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}

// AdapterReaction is a reaction that was added or removed. Without a user, the reactions of
// all users were removed; without a reaction, all reactions were.
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

// RequestMessage asks the runner to add messages to a session's work. If the last message of
// a prompt is from the assistant, the runner outputs it unchanged and calls no model.
type RequestMessage struct {
	Queue    Queue          `json:"queue"`
	Messages []chat.Message `json:"messages"`
	// MessageID identifies this message, to handle it exactly once and to refer to it in
	// evt.request.message.applied.
	MessageID string `json:"messageId"`
	// ElseRequestID is the id of the new request that the message starts if its request has
	// already ended. [ElseRequest] returns the default.
	ElseRequestID string `json:"elseRequestId,omitempty"`
	// AnyActive applies a steer, followUp or interrupt to the running request, whichever it
	// is.
	AnyActive bool `json:"anyActive,omitempty"`
	// AnswersPause makes the message an answer to the pause with that number. The message is
	// dropped if the pause is over.
	AnswersPause int `json:"answersPause,omitempty"`
	// Answer is the answer to that pause, and AnsweredBy the name of the person who gives
	// it. Without it, the text of the message is the answer.
	Answer     string `json:"answer,omitempty"`
	AnsweredBy string `json:"answeredBy,omitempty"`
	// Grant restricts the request that the message is applied to, in addition to the
	// restrictions that it has.
	Grant grant.Grant `json:"grant,omitempty"`
	// Agent is the name of the configured agent that does the work, if the message begins a
	// request; "" means the agent of the conversation.
	Agent string `json:"agent,omitempty"`
	// Rule is the rule that delivers an event with this message; people's messages have none.
	Rule string          `json:"rule,omitempty"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// RequestCancel stops a request.
type RequestCancel struct {
	Reason string `json:"reason,omitempty"`
	// CancelQueued also cancels the requests that are queued behind it in the session.
	CancelQueued bool `json:"cancelQueued,omitempty"`
	// AnyActive cancels the request that runs in the session when the event is handled, or
	// else the next one. The request id of the event then names no request.
	AnyActive bool `json:"anyActive,omitempty"`
}

// RequestLifecycle reports that a request changed its state.
type RequestLifecycle struct {
	State  RequestState `json:"state"`
	Detail string       `json:"detail,omitempty"`
	// ErrorKind is the kind of error that a failed request ended with.
	ErrorKind fault.Kind `json:"errorKind,omitempty"`
	// Paused reports that the request waits for an answer to the question in Detail. Until
	// then, it does no work and publishes no output.
	Paused bool `json:"paused,omitempty"`
	// Pause, Kind, and Answers describe the question as a session.paused does. Answers are
	// those that buttons offer.
	Pause   int      `json:"pause,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Answers []string `json:"answers,omitempty"`
	// Offset is the length of the text before the question, in bytes.
	Offset int64 `json:"offset,omitempty"`
	// Answer is the answer to the question of Pause, and AnsweredBy the name of the person
	// who gave it, if known.
	Answer     string `json:"answer,omitempty"`
	AnsweredBy string `json:"answeredBy,omitempty"`
	TS         int64  `json:"ts"`
}

// MessageApplied reports how a message was applied. The header names the request that it was
// applied to.
type MessageApplied struct {
	MessageID string `json:"messageId"`
	Queue     Queue  `json:"queue"`
	// Offset is the byte offset in the request's text at which the message was applied.
	Offset int64 `json:"offset"`
}

// RequestReply asks for a relay of the request's output.
type RequestReply struct{}

// TextDelta is a piece of the answer's text. It contains only whole runes.
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

// OutputAnchor marks the position in the output at which a steer or an interrupt was applied.
type OutputAnchor struct {
	MessageID string `json:"messageId"`
	Offset    int64  `json:"offset"`
}

// OutputActivity is a heartbeat of a model or tool that produces no output.
type OutputActivity struct{}

// ToolStatus is the state of a tool call.
type ToolStatus string

// The states of a tool call.
const (
	ToolStart  ToolStatus = "start"
	ToolUpdate ToolStatus = "update"
	ToolEnd    ToolStatus = "end"
)

// ToolCallOutput reports the progress of a tool call. Name, Args and Output are for surfaces
// that show more than the one-line display. A call that was stopped before it started has
// only a final event. A long Output or Error is cut off; Truncated reports that.
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

// BinaryOutput is a file that the agent sends. A small file is included; a larger one is a
// reference to the blob store.
type BinaryOutput struct {
	BinaryID   string `json:"binaryId"`
	MimeType   string `json:"mimeType"`
	Filename   string `json:"filename,omitempty"`
	DataBase64 string `json:"dataBase64,omitempty"`
	Blob       string `json:"blob,omitempty"`
	// Bytes is the size of the file, and Path its path in the workspace. They are zero and
	// empty if unknown.
	Bytes int64  `json:"bytes,omitempty"`
	Path  string `json:"path,omitempty"`
}

// FinalText is the last event of an output topic.
type FinalText struct {
	FinalText string `json:"finalText"`
	// Delivery is "reply" (the default) or "skip".
	Delivery string `json:"delivery,omitempty"`
	// Notes are remarks about the answer that are not part of its text.
	Notes []string    `json:"notes,omitempty"`
	Usage *chat.Usage `json:"usage,omitempty"`
}

// SurfaceReanchor moves the output of a running request to another message.
type SurfaceReanchor struct {
	InheritReplyTo bool            `json:"inheritReplyTo"`
	ReplyTo        *MessageRef     `json:"replyTo,omitempty"`
	Mode           json.RawMessage `json:"mode,omitempty"`
	MessageID      string          `json:"messageId,omitempty"`
}

// MessageRef identifies a message on a platform.
type MessageRef struct {
	Platform  string `json:"platform"`
	ChannelID string `json:"channelId"`
	MessageID string `json:"messageId"`
}

// SurfaceMessageCreated reports that a relay posted a message.
type SurfaceMessageCreated struct {
	MsgRef MessageRef `json:"msgRef"`
}

// EnvEvent is an environment event in the form that its specification defines.
type EnvEvent struct {
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Timestamp is the time of the event in Unix milliseconds.
	Timestamp int64           `json:"timestamp"`
	Metadata  EnvMetadata     `json:"metadata"`
	Payload   json.RawMessage `json:"payload"`
}

// EventType returns the event's own type, because the set of environment events is open.
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
