package event

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// The types of environment events that the program itself produces. The set is open:
// sources and rules produce other types.
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
	SourceReceived          Type = "source.received"
	FileChanged             Type = "file.changed"
	TimerFired              Type = "timer.fired"
	MCPToolsChanged         Type = "mcp.tools.changed"
	MCPPromptsChanged       Type = "mcp.prompts.changed"
	MCPResourcesChanged     Type = "mcp.resources.changed"
	MCPResourceUpdated      Type = "mcp.resource.updated"
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

// EnvTypes returns the types of environment events that the program itself produces.
func EnvTypes() []Type {
	return []Type{
		UserQuery, UserStop, SessionCreated, SessionUpdated, SessionDeleted, SessionMessageApplied, SessionPaused, SessionResumed,
		BackgroundTaskStarted, BackgroundTaskCompleted, BackgroundTaskFailed, BackgroundTaskProgress, BackgroundTaskTimeout, BackgroundTaskStopped,
		WebhookReceived, SourceReceived, FileChanged, TimerFired, MCPToolsChanged, MCPPromptsChanged, MCPResourcesChanged, MCPResourceUpdated, RuleStopped, ToolExecuted, ToolFailed,
		StreamStart, StreamText, StreamReasoning, StreamToolCall, StreamFile, StreamCompleted, StreamError,
	}
}

// StreamOnly reports whether events of the type are only shown on the event stream. They are
// derived from other events, and never published, so no rule receives them.
func StreamOnly(t Type) bool {
	switch t {
	case SessionMessageApplied, StreamText, StreamReasoning, StreamToolCall, StreamFile:
		return true
	}
	return false
}

var envType = lazyregexp.New(`^[a-z0-9_.]{1,64}$`)

// maxTimestamp is the largest time of a JavaScript Date in Unix milliseconds (ECMA-262,
// Time Values).
const maxTimestamp = 8_640_000_000_000_000

// Validate checks an environment event before it is published. It must have an id, a type of
// the form [a-z0-9_.]{1,64} that the bus does not use itself, a time in Unix milliseconds,
// and a payload of valid JSON.
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

// MaxDepth is the maximum length of a chain of events in which each causes the next.
const MaxDepth = 8

// EnvMetadata describes the origin of an environment event. Additional fields are kept
// unchanged.
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

// MarshalJSON encodes the known and the additional fields in one object.
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

// UnmarshalJSON decodes the known fields and keeps the others.
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
		if *into != "" { // keep an empty field, so that it is encoded again
			delete(all, name)
		}
	}
	if len(all) > 0 {
		m.Extra = all
	}
	return nil
}

// inField adds the name of the event's field to a type error, because the decoder of the
// value does not know it.
func inField(name string, err error) error {
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) {
		shape.Field = name
	}
	return fmt.Errorf("decode %s: %w", name, err)
}

// MetadataReplayOf is the metadata field with the id of the event that this one repeats.
const MetadataReplayOf = "replay_of"

// SourceEntry is the source of events that a program caused through an entry point with
// tokens of its own, such as /v1.
const SourceEntry = "v1"

// MetadataRequest is the metadata field with the id of the request that caused the event.
const MetadataRequest = "request_id"

// MetadataGrant is the metadata field with the restrictions of what caused the event, as a
// [grant.Grant]. They also hold for the requests that the event causes. MetadataOrigin is
// the field with the type of the event that another event was derived from.
const (
	MetadataGrant  = "grant"
	MetadataOrigin = "origin_type"
)

// UserQueryPayload is the payload of a user_query: a prompt from the web page, the terminal
// or the API. The HTTP route chooses the request and message ids.
type UserQueryPayload struct {
	SessionID string `json:"sessionId"`
	Content   string `json:"content"`
	RequestID string `json:"requestId"`
	MessageID string `json:"messageId"`
	Queue     Queue  `json:"queue"`
	// Client is the surface's name, "web" or "terminal".
	Client string `json:"client"`
	// ElseRequestID is used if Queue is not prompt and RequestID has already ended.
	ElseRequestID string `json:"elseRequestId,omitempty"`
	// Attachments holds the file parts of a chat message; their data are blob references.
	Attachments json.RawMessage `json:"attachments,omitempty"`
	// Author is the person with an account who wrote the message, or, in a conversation with such
	// people, the operator; nil otherwise.
	Author *Author `json:"author,omitempty"`
}

// Author is the author of a message on the page.
type Author struct {
	// ID is that of the account, or "operator" for the operator's token.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Role is that of the account; "" for the operator's token.
	Role string `json:"role,omitempty"`
}

// UserStopPayload is the payload of a user_stop: a person stops an accepted request, which
// may not have started yet. A user_stop is delivered after the user_query that it follows.
type UserStopPayload struct {
	SessionID string `json:"sessionId"`
	// RequestID is the request to stop. Empty means the request that runs when the event is
	// handled, or else the next one.
	RequestID    string `json:"requestId,omitempty"`
	Client       string `json:"client"`
	CancelQueued bool   `json:"cancelQueued,omitempty"`
	Reason       string `json:"reason,omitempty"`
}

// ToolPayload is the payload of tool.executed and tool.error. It has the beginning of the
// tool's output, and identifies the call.
type ToolPayload struct {
	RequestID  string `json:"requestId"`
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
	Display    string `json:"display,omitempty"`
	Output     string `json:"output,omitempty"`
	Error      string `json:"error,omitempty"`
}

// StreamPayload is the payload of the stream.* events that rules can match. stream.start has
// only the request; stream.completed and stream.error also have its outcome. Truncated
// reports that Content was cut off.
type StreamPayload struct {
	RequestID string              `json:"requestId"`
	Content   *string             `json:"content,omitempty"`
	Truncated bool                `json:"truncated,omitempty"`
	Usage     *chat.Usage         `json:"usage,omitempty"`
	Error     *StreamErrorPayload `json:"error,omitempty"`
	Cancelled bool                `json:"cancelled,omitempty"`
	// Reason says why the request was cancelled.
	Reason string `json:"reason,omitempty"`
}

// StreamErrorPayload says why a request failed.
type StreamErrorPayload struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}

// RuleStoppedPayload is the payload of a rule.stopped: a rule has used up its daily budget in
// a session.
type RuleStoppedPayload struct {
	Rule string `json:"rule"`
	// Limit is runs, tokens or money. Used and Allowed have that unit; money is in
	// millionths of a US dollar.
	Limit   string `json:"limit"`
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
}

// SessionPausedPayload is the payload of a session.paused: a request waits for an answer,
// because it has reached a limit, a call needs an approval, or the agent asks something.
type SessionPausedPayload struct {
	RequestID string `json:"requestId"`
	// Pause is the number of this pause within the request, starting at 1.
	Pause int `json:"pause"`
	// Kind is approval or question; it is empty at a limit.
	Kind string `json:"kind,omitempty"`
	// Limit has two parts: request, session or day, and steps, tokens, money or time, for
	// example "day.money". Used, Allowed and More (the amount that a "continue" adds) are
	// steps, tokens, millionths of a US dollar, or milliseconds.
	Limit   string `json:"limit"`
	Used    int64  `json:"used"`
	Allowed int64  `json:"allowed"`
	More    int64  `json:"more"`
	// Question is the question to people. At a limit, the request's text contains it, too.
	Question string `json:"question"`
	// Choices are suggested answers to a question of the agent.
	Choices []string `json:"choices,omitempty"`
	// Call is the call that needs an approval.
	Call *AskedCallPayload `json:"call,omitempty"`
	// Until is the time at which the request continues without the call or the answer, or at
	// which it ends at a limit, in Unix milliseconds.
	Until int64 `json:"until"`
	// Again reports that the question is repeated, because the last message was not an
	// answer.
	Again bool `json:"again,omitempty"`
}

// AskedCallPayload is a call that needs an approval.
type AskedCallPayload struct {
	// Tool is the name of the tool or callable.
	Tool string `json:"tool"`
	// Input is the canonical JSON of the input, or its beginning if it has more Bytes.
	Input string `json:"input"`
	Bytes int    `json:"bytes"`
	// Hash is the SHA-256 of the canonical input, in hexadecimal digits.
	Hash string `json:"hash"`
}

// SessionResumedPayload is the payload of a session.resumed: the question was answered. The
// answer "stop" ends the request.
type SessionResumedPayload struct {
	RequestID string `json:"requestId"`
	Pause     int    `json:"pause"`
	// Answer is continue or stop at a limit, or newDay if the day of a daily limit ended
	// first; once, always or no about a call; reply to a question; timeout if nobody
	// answered.
	Answer string `json:"answer"`
	// By is the name of the person who answered, if known.
	By string `json:"by,omitempty"`
}

// StreamFilePayload is the payload of a stream.file: the agent has sent a file.
type StreamFilePayload struct {
	RequestID string `json:"requestId"`
	// FileID identifies the file within the request. An event with the same id is a
	// duplicate.
	FileID   string `json:"fileId"`
	Filename string `json:"filename"`
	MimeType string `json:"mimeType"`
	Bytes    int64  `json:"bytes"`
	// URL is the address of the content. It requires the API token.
	URL string `json:"url"`
	// Path is the path in the workspace; empty if the file is not there.
	Path string `json:"path,omitempty"`
}
