package event

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// Types of environment events that the program itself produces. The catalog
// of environment events is open: others are made by sources and by rules.
const (
	UserQuery               Type = "user_query"
	UserStop                Type = "user_stop"
	SessionCreated          Type = "session.created"
	SessionUpdated          Type = "session.updated"
	SessionDeleted          Type = "session.deleted"
	SessionMessageApplied   Type = "session.message_applied"
	SessionPaused           Type = "session.paused"
	SessionResumed          Type = "session.resumed"
	BackgroundTaskStarted   Type = "background_task.started"
	BackgroundTaskCompleted Type = "background_task.completed"
	BackgroundTaskFailed    Type = "background_task.failed"
	BackgroundTaskProgress  Type = "background_task.progress"
	BackgroundTaskTimeout   Type = "background_task.timeout"
	BackgroundTaskStopped   Type = "background_task.stopped"
	WebhookReceived         Type = "webhook.received"
	FileChanged             Type = "file.changed"
	TimerFired              Type = "timer.fired"
	RuleStopped             Type = "rule.stopped"
	ToolExecuted            Type = "tool.executed"
	ToolFailed              Type = "tool.error"
	StreamStart             Type = "stream.start"
	StreamText              Type = "stream.text"
	StreamReasoning         Type = "stream.reasoning"
	StreamToolCall          Type = "stream.tool_call"
	StreamFile              Type = "stream.file"
	StreamCompleted         Type = "stream.completed"
	StreamError             Type = "stream.error"
)

// EnvTypes are the types of environment events that the program itself produces.
func EnvTypes() []Type {
	return []Type{
		UserQuery, UserStop, SessionCreated, SessionUpdated, SessionDeleted, SessionMessageApplied, SessionPaused, SessionResumed,
		BackgroundTaskStarted, BackgroundTaskCompleted, BackgroundTaskFailed, BackgroundTaskProgress, BackgroundTaskTimeout, BackgroundTaskStopped,
		WebhookReceived, FileChanged, TimerFired, RuleStopped, ToolExecuted, ToolFailed,
		StreamStart, StreamText, StreamReasoning, StreamToolCall, StreamFile, StreamCompleted, StreamError,
	}
}

var envType = lazyregexp.New(`^[a-z0-9_.]{1,64}$`)

// maxTimestamp is the last millisecond of a date in JavaScript (ECMA-262, Time Values).
const maxTimestamp = 8_640_000_000_000_000

// Validate checks what a publisher of an environment event must keep: an id,
// a type of the form [a-z0-9_.]{1,64} that is not one of the bus's own, a time
// in milliseconds, and a payload that is JSON.
func (e EnvEvent) Validate() error {
	switch {
	case e.ID == "" || len(e.ID) > 256:
		return fault.InvalidField("id", "An event needs an id of 1 to 256 characters.")
	case !envType().MatchString(string(e.Type)):
		return fault.InvalidField("type", "The type %q is not made of 1 to 64 characters a-z, 0-9, _ and dots.", e.Type)
	case e.Timestamp < 0 || e.Timestamp > maxTimestamp:
		return fault.InvalidField("timestamp", "The timestamp %d is not a time in milliseconds since 1970.", e.Timestamp)
	case len(e.Payload) > 0 && !json.Valid(e.Payload):
		return fault.InvalidField("payload", "The payload is not JSON.")
	}
	if _, taken := Lookup(e.Type); taken {
		return fault.InvalidField("type", "The type %q belongs to the bus itself.", e.Type)
	}
	return nil
}

// MaxDepth is how many events may cause each other, one after the other.
const MaxDepth = 8

// EnvMetadata says where an environment event comes from. Extra fields are
// kept as they came.
type EnvMetadata struct {
	TriggerSessionID string
	TriggerAgentID   string
	TriggerAgentName string
	EnvName          string
	// Source is tool, env, user, system or llm.
	Source string
	Extra  map[string]json.RawMessage
}

func (m *EnvMetadata) fields() map[string]*string {
	return map[string]*string{
		"trigger_session_id": &m.TriggerSessionID,
		"trigger_agent_id":   &m.TriggerAgentID,
		"trigger_agent_name": &m.TriggerAgentName,
		"env_name":           &m.EnvName,
		"source":             &m.Source,
	}
}

// MarshalJSON writes the known fields and the extra ones side by side.
func (m EnvMetadata) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(m.Extra)+5)
	for name, v := range m.Extra {
		out[name] = v
	}
	for name, v := range m.fields() {
		if *v != "" {
			out[name] = *v
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the known fields and keeps the others.
func (m *EnvMetadata) UnmarshalJSON(data []byte) error {
	*m = EnvMetadata{}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return inField("metadata", err)
	}
	for name, into := range m.fields() {
		raw, ok := all[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return inField("metadata."+name, err)
		}
		if *into != "" { // an empty one stays, to be written as it came
			delete(all, name)
		}
	}
	if len(all) > 0 {
		m.Extra = all
	}
	return nil
}

// inField says which field of an event has a value of another type: what decodes
// it does not know where it stands.
func inField(name string, err error) error {
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) {
		shape.Field = name
	}
	return fmt.Errorf("decode %s: %w", name, err)
}

// MetadataRequest is the field of the metadata that names the request whose
// work caused the event.
const MetadataRequest = "request_id"

// UserQueryPayload is the payload of a user_query: a prompt from a page, a
// terminal or the API. The request and message ids are chosen by the route.
type UserQueryPayload struct {
	SessionID string `json:"sessionId"`
	Content   string `json:"content"`
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	Queue     Queue  `json:"queue"`
	// Client is the surface's name, "web" or "terminal".
	Client string `json:"client"`
	// ElseRequestID is used when Queue is not prompt and RequestID is over.
	ElseRequestID string `json:"elseRequestId,omitempty"`
	// Attachments are file parts of a chat message, their data a blob reference.
	Attachments json.RawMessage `json:"attachments,omitempty"`
}

// UserStopPayload is the payload of a user_stop: a person stops what was accepted
// and may not have begun. On its way it stays behind the user_query that it
// follows.
type UserStopPayload struct {
	SessionID string `json:"sessionId"`
	// RequestID is the request to stop; without it what runs then, or would run
	// next.
	RequestID    string `json:"requestId,omitempty"`
	Client       string `json:"client"`
	CancelQueued bool   `json:"cancelQueued,omitempty"`
	Reason       string `json:"reason,omitempty"`
}

// ToolPayload is the payload of tool.executed and tool.error: the beginning of
// what the tool said, and to which call of a request.
type ToolPayload struct {
	RequestID  string `json:"requestId"`
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
	Display    string `json:"display,omitempty"`
	Output     string `json:"output,omitempty"`
	Error      string `json:"error,omitempty"`
}

// StreamPayload is the payload of the stream.* events that rules can be for:
// stream.start has the request alone, stream.completed and stream.error also
// how it ended. A long content is Truncated.
type StreamPayload struct {
	RequestID string              `json:"requestId"`
	Content   *string             `json:"content,omitempty"`
	Truncated bool                `json:"truncated,omitempty"`
	Usage     *chat.Usage         `json:"usage,omitempty"`
	Error     *StreamErrorPayload `json:"error,omitempty"`
	Cancelled bool                `json:"cancelled,omitempty"`
	// Reason is why it was cancelled.
	Reason string `json:"reason,omitempty"`
}

// StreamErrorPayload says why a request failed.
type StreamErrorPayload struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}

// RuleStoppedPayload is the payload of a rule.stopped: a rule has used up its
// budget of the day in a session.
type RuleStoppedPayload struct {
	Rule string `json:"rule"`
	// Limit is runs, tokens or money. Used and Allowed are those, or millionths
	// of a US dollar.
	Limit   string `json:"limit"`
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
}

// SessionPausedPayload is the payload of a session.paused: a request has
// reached a limit and asks whether to go on.
type SessionPausedPayload struct {
	RequestID string `json:"requestId"`
	// Pause counts the pauses of the request from 1.
	Pause int `json:"pause"`
	// Limit is request, session or day, then steps, tokens, money or time:
	// "day.money". Used, Allowed and More (what an answer allows) are steps,
	// tokens, millionths of a US dollar, or milliseconds.
	Limit   string `json:"limit"`
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
	More    int64  `json:"more"`
	// Question is what people are asked. It is in the request's text, too.
	Question string `json:"question"`
	// Until is when the request ends if nobody answers, Unix milliseconds.
	Until int64 `json:"until"`
	// Again says that something else was said instead of an answer.
	Again bool `json:"again,omitempty"`
}

// SessionResumedPayload is the payload of a session.resumed: the question was
// answered. A request whose answer is stop ends.
type SessionResumedPayload struct {
	RequestID string `json:"requestId"`
	Pause     int    `json:"pause"`
	// Answer is continue or stop.
	Answer string `json:"answer"`
}

// StreamFilePayload is the payload of a stream.file: the request has given a
// file to people.
type StreamFilePayload struct {
	RequestID string `json:"requestId"`
	// FileID names it within the request: one that comes again is the same.
	FileID   string `json:"fileId"`
	Filename string `json:"filename"`
	MimeType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
	// URL is where its bytes are, for who has the token.
	URL string `json:"url"`
	// Path is where it lies in the workspace, if it does.
	Path string `json:"path,omitempty"`
}
