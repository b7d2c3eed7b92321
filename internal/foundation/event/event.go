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

// The fixed topics. Output topics are made by [OutputTopic].
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

// OutputTopic is the topic of one request's output.
func OutputTopic(requestID string) Topic { return Topic(outputPrefix + requestID) }

// OutputRequest returns the request of an output topic.
func (t Topic) OutputRequest() (requestID string, ok bool) {
	return strings.CutPrefix(string(t), outputPrefix)
}

// Event is the envelope: what the bus stores and moves.
type Event struct {
	// ID is minted from the logical act, so publishing again is the same event.
	ID    string `json:"id"`
	Topic Topic  `json:"topic"`
	Type  Type   `json:"type"`
	// TS is when it happened, Unix milliseconds.
	TS int64 `json:"ts"`
	// Key correlates: the request id, the message id or the session id.
	Key string `json:"key,omitempty"`
	// Lane is what order is kept within: session, workflow or request.
	Lane    string          `json:"lane,omitempty"`
	Headers Headers         `json:"headers,omitempty"`
	Data    json.RawMessage `json:"data"`
}

// Headers travel with an event. Names beyond the constants are free extras.
type Headers map[string]string

// Header names. The first three are required on request-scoped events.
const (
	HeaderRequestID       = "request_id"
	HeaderSessionID       = "session_id"
	HeaderRequestClient   = "request_client"
	HeaderTraceParent     = "traceparent"
	HeaderParentRequestID = "parent_request_id"
	// HeaderDepth counts how many events caused each other up to this one.
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

// Meta is what a publisher says beside the payload.
type Meta struct {
	// ID names the logical act (who, what, which step); required.
	ID      string
	Time    time.Time
	Headers Headers
}

// Payload is the typed data of one event type.
type Payload interface {
	// EventType names the type; the same for every value but [EnvEvent] and
	// the pairs that share a payload, whose value says which one it is.
	EventType() Type
}

// New makes an event. It fails, naming the event, when the type is not in the
// catalog, the id or a required header is missing, or the payload cannot be
// encoded.
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
	if err := e.Validate(); err != nil {
		return Event{}, err
	}
	return e, nil
}

// Validate checks the envelope against the catalog. The bus calls it on every
// publish, so an event that was not made by [New] is checked too. An unknown
// type passes if its envelope is complete: newer programs may share the bus.
func (e Event) Validate() error {
	switch {
	case e.ID == "":
		return fault.New(fault.Invalid, "event %q has no id", e.Type)
	case e.Type == "":
		return fault.New(fault.Invalid, "event %q has no type", e.ID)
	case e.Topic == "":
		return fault.New(fault.Invalid, "event %q has no topic", e.Type)
	case !json.Valid(e.Data):
		return fault.New(fault.Invalid, "event %q has data that is not JSON", e.Type)
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

// Time is when the event happened.
func (e Event) Time() time.Time { return time.UnixMilli(e.TS) }
