package event

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"lilac/internal/foundation/fault"
)

// Type names an event, for example "cmd.request.message".
type Type string

// Topic names an ordered log of events, for example "cmd.request".
type Topic string

// The fixed topics. [OutputTopic] returns the others.
const (
	TopicAdapter    Topic = "evt.adapter"
	TopicCmdRequest Topic = "cmd.request"
	TopicRequest    Topic = "evt.request"
	TopicCmdSurface Topic = "cmd.surface"
	TopicSurface    Topic = "evt.surface"
	TopicCmdFlow    Topic = "cmd.workflow"
	TopicFlow       Topic = "evt.workflow"
	TopicEnv        Topic = "env"
)

// Topics returns the fixed topics.
func Topics() []Topic {
	return []Topic{TopicAdapter, TopicCmdRequest, TopicRequest, TopicCmdSurface, TopicSurface, TopicCmdFlow, TopicFlow, TopicEnv}
}

const outputPrefix = "out.req."

// OutputTopic returns the topic of one request's output.
func OutputTopic(requestID string) Topic { return Topic(outputPrefix + requestID) }

// OutputRequest returns the request id of an output topic.
func (t Topic) OutputRequest() (requestID string, ok bool) {
	return strings.CutPrefix(string(t), outputPrefix)
}

// Event is the envelope that the bus stores and delivers.
type Event struct {
	// ID is derived from the logical action, so publishing the action again creates a
	// duplicate of the same event.
	ID    string `json:"id"`
	Topic Topic  `json:"topic"`
	Type  Type   `json:"type"`
	// TS is the time of the event in Unix milliseconds.
	TS int64 `json:"ts"`
	// Key correlates events. It is the request id, the message id or the session id.
	Key string `json:"key,omitempty"`
	// Lane is the unit of ordering: a session, a workflow or a request. Events of one lane
	// are handled in order.
	Lane    string          `json:"lane,omitempty"`
	Headers Headers         `json:"headers,omitempty"`
	Data    json.RawMessage `json:"data"`
}

// Headers are the metadata of an event. Names other than the constants are allowed.
type Headers map[string]string

// Header names. The first three are required on request-scoped events.
const (
	HeaderRequestID       = "request_id"
	HeaderSessionID       = "session_id"
	HeaderRequestClient   = "request_client"
	HeaderTraceParent     = "traceparent"
	HeaderParentRequestID = "parent_request_id"
	// HeaderDepth is the length of the chain of causes that led to this event.
	HeaderDepth = "depth"
)

// RequestID returns the request that the event belongs to, or "".
func (h Headers) RequestID() string { return h[HeaderRequestID] }

// SessionID returns the session that the event belongs to, or "".
func (h Headers) SessionID() string { return h[HeaderSessionID] }

// Client returns the name of the surface that the request came from, or "".
func (h Headers) Client() string { return h[HeaderRequestClient] }

// RequestHeaders returns the three headers of a request-scoped event.
func RequestHeaders(requestID, sessionID, client string) Headers {
	return Headers{HeaderRequestID: requestID, HeaderSessionID: sessionID, HeaderRequestClient: client}
}

// With returns a copy of h with one more header.
func (h Headers) With(name, value string) Headers {
	out := maps.Clone(h)
	if out == nil {
		out = Headers{}
	}
	out[name] = value
	return out
}

// Meta holds the fields of an event that the publisher sets in addition to the payload.
type Meta struct {
	// ID identifies the logical action (actor, action, step). It is required.
	ID      string
	Time    time.Time
	Headers Headers
}

// Payload is the typed data of one event type.
type Payload interface {
	// EventType returns the event type. It depends on the value only for [EnvEvent] and for
	// pairs of types that share a payload.
	EventType() Type
}

// New creates an event. It fails if the type is not in the catalog, if the id or a required
// header is missing, or if the payload cannot be encoded. The error names the event.
func New(meta Meta, data Payload) (Event, error) {
	t := data.EventType()
	def, ok := Lookup(t)
	if env, is := data.(EnvEvent); is {
		if err := env.Validate(); err != nil {
			return Event{}, err
		}
		def, ok = envDef, true
	}
	if !ok {
		return Event{}, fault.New(fault.Invalid, "event %q is not in the catalog", t)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return Event{}, fault.Wrap(fault.Invalid, err, "encode event %q", t)
	}
	e := Event{ID: meta.ID, Type: t, TS: meta.Time.UnixMilli(), Headers: meta.Headers, Data: raw}
	if e.Topic = def.Topic; def.Output {
		e.Topic = OutputTopic(meta.Headers.RequestID())
	}
	e.Key, e.Lane = def.route(e.Headers, data)
	if err := e.checkEnvelope(); err != nil {
		return Event{}, err
	}
	return e, nil
}

// Validate checks the envelope against the catalog. The bus calls it on every publish, so it
// also covers events that [New] did not create. An unknown type is valid if its envelope is
// complete, because newer versions of the program may share the bus.
func (e Event) Validate() error {
	if err := e.checkEnvelope(); err != nil {
		return err
	}
	if !json.Valid(e.Data) {
		return fault.New(fault.Invalid, "event %q has data that is not JSON", e.Type)
	}
	return nil
}

func (e Event) checkEnvelope() error {
	switch {
	case e.ID == "":
		return fault.New(fault.Invalid, "event %q has no id", e.Type)
	case e.Type == "":
		return fault.New(fault.Invalid, "event %q has no type", e.ID)
	case e.Topic == "":
		return fault.New(fault.Invalid, "event %q has no topic", e.Type)
	}
	def, ok := Lookup(e.Type)
	if !ok || !def.RequestScoped || e.Topic == TopicEnv {
		return nil
	}
	for _, name := range []string{HeaderRequestID, HeaderSessionID, HeaderRequestClient} {
		if e.Headers[name] == "" {
			return fault.New(fault.Invalid, "event %q belongs to a request and lacks the header %q", e.Type, name)
		}
	}
	if e.Key != e.Headers.RequestID() {
		return fault.New(fault.Invalid, "event %q has the key %q, which is not its request_id", e.Type, e.Key)
	}
	return nil
}

// Time returns the time of the event.
func (e Event) Time() time.Time { return time.UnixMilli(e.TS) }
