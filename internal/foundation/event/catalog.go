package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// The event types of the bus.
const (
	AdapterMessageCreated  Type = "evt.adapter.message.created"
	AdapterMessageUpdated  Type = "evt.adapter.message.updated"
	AdapterMessageDeleted  Type = "evt.adapter.message.deleted"
	AdapterReactionAdded   Type = "evt.adapter.reaction.added"
	AdapterReactionRemoved Type = "evt.adapter.reaction.removed"

	CmdRequestMessage       Type = "cmd.request.message"
	CmdRequestCancel        Type = "cmd.request.cancel"
	RequestLifecycleChanged Type = "evt.request.lifecycle.changed"
	RequestMessageApplied   Type = "evt.request.message.applied"
	RequestReplyStarted     Type = "evt.request.reply"

	OutputDeltaText      Type = "evt.agent.output.delta.text"
	OutputDeltaReasoning Type = "evt.agent.output.delta.reasoning"
	OutputTextReset      Type = "evt.agent.output.text.reset"
	OutputAnchored       Type = "evt.agent.output.anchor"
	OutputActive         Type = "evt.agent.output.activity"
	OutputToolCall       Type = "evt.agent.output.toolcall"
	OutputResponseBinary Type = "evt.agent.output.response.binary"
	OutputResponseText   Type = "evt.agent.output.response.text"

	CmdSurfaceReanchor   Type = "cmd.surface.output.reanchor"
	SurfaceOutputCreated Type = "evt.surface.output.message.created"

	CmdWorkflowCreate     Type = "cmd.workflow.create"
	CmdWorkflowTaskCreate Type = "cmd.workflow.task.create"
	CmdWorkflowCancel     Type = "cmd.workflow.cancel"
	WorkflowLifecycle     Type = "evt.workflow.lifecycle.changed"
	WorkflowResolved      Type = "evt.workflow.resolved"
	WorkflowTaskLifecycle Type = "evt.workflow.task.lifecycle.changed"
	WorkflowTaskResolved  Type = "evt.workflow.task.resolved"
)

// A Def is the catalog entry of one event type.
type Def struct {
	Type Type
	// Topic is the topic of the event. Each request has its own Output topic.
	Topic  Topic
	Output bool
	// RequestScoped marks events that need all three request headers. Their key is the
	// request id.
	RequestScoped bool

	route  func(Headers, Payload) (key, lane string)
	decode func([]byte) (Payload, error)
}

var catalog = func() map[Type]Def {
	defs := []Def{
		adapter(AdapterMessageCreated, decodeAs[AdapterMessage]),
		adapter(AdapterMessageUpdated, decodeUpdated),
		adapter(AdapterMessageDeleted, decodeAs[AdapterDeletion]),
		adapter(AdapterReactionAdded, decodeAs[AdapterReaction]),
		adapter(AdapterReactionRemoved, decodeRemoved),

		bySession(CmdRequestMessage, TopicCmdRequest, decodeAs[RequestMessage]),
		bySession(CmdRequestCancel, TopicCmdRequest, decodeAs[RequestCancel]),
		bySession(RequestLifecycleChanged, TopicRequest, decodeLifecycle),
		bySession(RequestMessageApplied, TopicRequest, decodeAs[MessageApplied]),
		bySession(RequestReplyStarted, TopicRequest, decodeAs[RequestReply]),

		output(OutputDeltaText, decodeAs[TextDelta]),
		output(OutputDeltaReasoning, decodeAs[ReasoningDelta]),
		output(OutputTextReset, decodeAs[TextReset]),
		output(OutputAnchored, decodeAs[OutputAnchor]),
		output(OutputActive, decodeAs[OutputActivity]),
		output(OutputToolCall, decodeAs[ToolCallOutput]),
		output(OutputResponseBinary, decodeAs[BinaryOutput]),
		output(OutputResponseText, decodeAs[FinalText]),

		bySession(CmdSurfaceReanchor, TopicCmdSurface, decodeAs[SurfaceReanchor]),
		bySession(SurfaceOutputCreated, TopicSurface, decodeAs[SurfaceMessageCreated]),

		byWorkflow(CmdWorkflowCreate, TopicCmdFlow, decodeAs[WorkflowCreate]),
		byWorkflow(CmdWorkflowTaskCreate, TopicCmdFlow, decodeAs[WorkflowTaskCreate]),
		byWorkflow(CmdWorkflowCancel, TopicCmdFlow, decodeAs[WorkflowCancel]),
		byWorkflow(WorkflowLifecycle, TopicFlow, decodeAs[WorkflowLifecycleChanged]),
		byWorkflow(WorkflowResolved, TopicFlow, decodeAs[WorkflowOutcome]),
		byWorkflow(WorkflowTaskLifecycle, TopicFlow, decodeAs[WorkflowTaskLifecycleChanged]),
		byWorkflow(WorkflowTaskResolved, TopicFlow, decodeAs[WorkflowTaskOutcome]),
	}
	m := make(map[Type]Def, len(defs))
	for _, d := range defs {
		m[d.Type] = d
	}
	return m
}()

// envDef is the entry for all environment events. Their set of types is open, so the topic
// identifies them, not the type.
var envDef = Def{
	Topic: TopicEnv,
	route: func(_ Headers, p Payload) (string, string) {
		m := p.(EnvEvent).Metadata
		if m.TriggerSessionID == "" {
			// Events are ordered per source, so a slow source does not block others.
			return "", string(p.EventType()) + "/" + m.EnvName
		}
		return m.TriggerSessionID, m.TriggerSessionID
	},
	decode: decodeAs[EnvEvent],
}

// Lookup returns the catalog entry of a type. Environment events are not in the catalog,
// because their set of types is open.
func Lookup(t Type) (Def, bool) {
	def, ok := catalog[t]
	return def, ok
}

// All returns the catalog, sorted by type.
func All() []Def {
	return order.Sorted(maps.Values(catalog), func(a, b Def) int {
		return strings.Compare(string(a.Type), string(b.Type))
	})
}

// ErrUnknownType is the error that [Decode] wraps for a type that is not in the catalog.
var ErrUnknownType = errors.New("unknown event type")

// Decode returns the typed payload of e.
func Decode(e Event) (Payload, error) {
	def, ok := Lookup(e.Type)
	if e.Topic == TopicEnv {
		def, ok = envDef, true
	}
	if !ok {
		return nil, fmt.Errorf("decode event %q: %w", e.Type, ErrUnknownType)
	}
	p, err := def.decode(e.Data)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "event %q (%s) has data of another shape", e.ID, e.Type)
	}
	return p, nil
}

func adapter(t Type, decode func([]byte) (Payload, error)) Def {
	return Def{Type: t, Topic: TopicAdapter, decode: decode, route: func(_ Headers, p Payload) (string, string) {
		switch m := p.(type) {
		case AdapterMessage:
			return m.MessageID, m.ChannelID
		case AdapterDeletion:
			return m.MessageID, m.ChannelID
		case AdapterReaction:
			return m.MessageID, m.ChannelID
		}
		return "", ""
	}}
}

func bySession(t Type, topic Topic, decode func([]byte) (Payload, error)) Def {
	return Def{
		Type: t, Topic: topic, RequestScoped: true, decode: decode,
		route: func(h Headers, _ Payload) (string, string) { return h.RequestID(), h.SessionID() },
	}
}

func output(t Type, decode func([]byte) (Payload, error)) Def {
	return Def{
		Type: t, Output: true, RequestScoped: true, decode: decode,
		route: func(h Headers, _ Payload) (string, string) { return h.RequestID(), h.RequestID() },
	}
}

func byWorkflow(t Type, topic Topic, decode func([]byte) (Payload, error)) Def {
	return Def{
		Type: t, Topic: topic, RequestScoped: true, decode: decode,
		route: func(h Headers, p Payload) (string, string) {
			return h.RequestID(), p.(interface{ workflowID() string }).workflowID()
		},
	}
}

func decodeAs[T Payload](data []byte) (Payload, error) {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// decodeLifecycle decodes the state "resolved" of older producers as "done".
func decodeLifecycle(data []byte) (Payload, error) {
	var l RequestLifecycle
	err := json.Unmarshal(data, &l)
	if l.State == "resolved" {
		l.State = StateDone
	}
	return l, err
}

func decodeUpdated(data []byte) (Payload, error) {
	m := AdapterMessage{Updated: true}
	err := json.Unmarshal(data, &m)
	return m, err
}

func decodeRemoved(data []byte) (Payload, error) {
	r := AdapterReaction{Removed: true}
	err := json.Unmarshal(data, &r)
	return r, err
}
