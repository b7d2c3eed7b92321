package event_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	request = "web:s1:r1"
	session = "s1"
)

var (
	headers = event.RequestHeaders(request, session, "web")
	now     = time.UnixMilli(1_700_000_000_123)
)

func meta(h event.Headers) event.Meta { return event.Meta{ID: "e1", Time: now, Headers: h} }

// rows repeats the catalog, one row for each type, so that accidental changes fail a test.
var rows = []struct {
	payload event.Payload
	typ     event.Type
	topic   event.Topic
	scoped  bool
	key     string
	lane    string
}{
	{event.AdapterMessage{ChannelID: "c", MessageID: "m"}, "evt.adapter.message.created", "evt.adapter", false, "m", "c"},
	{event.AdapterMessage{Updated: true, ChannelID: "c", MessageID: "m"}, "evt.adapter.message.updated", "evt.adapter", false, "m", "c"},
	{event.AdapterDeletion{ChannelID: "c", MessageID: "m"}, "evt.adapter.message.deleted", "evt.adapter", false, "m", "c"},
	{event.AdapterReaction{ChannelID: "c", MessageID: "m"}, "evt.adapter.reaction.added", "evt.adapter", false, "m", "c"},
	{event.AdapterReaction{Removed: true, ChannelID: "c", MessageID: "m"}, "evt.adapter.reaction.removed", "evt.adapter", false, "m", "c"},

	{event.RequestMessage{Queue: event.Steer, Messages: []chat.Message{chat.Text(chat.User, "x")}, MessageID: "m"}, "cmd.request.message", "cmd.request", true, request, session},
	{event.RequestCancel{}, "cmd.request.cancel", "cmd.request", true, request, session},
	{event.RequestLifecycle{State: event.StateDone}, "evt.request.lifecycle.changed", "evt.request", true, request, session},
	{event.MessageApplied{MessageID: "m", Queue: event.Prompt}, "evt.request.message.applied", "evt.request", true, request, session},
	{event.RequestReply{}, "evt.request.reply", "evt.request", true, request, session},

	{event.TextDelta{Delta: "x", Seq: 1, Offset: 2}, "evt.agent.output.delta.text", "out.req." + request, true, request, request},
	{event.ReasoningDelta{Delta: "x"}, "evt.agent.output.delta.reasoning", "out.req." + request, true, request, request},
	{event.TextReset{Offset: 3}, "evt.agent.output.text.reset", "out.req." + request, true, request, request},
	{event.OutputAnchor{MessageID: "m"}, "evt.agent.output.anchor", "out.req." + request, true, request, request},
	{event.OutputActivity{}, "evt.agent.output.activity", "out.req." + request, true, request, request},
	{event.ToolCallOutput{ToolCallID: "t", Status: event.ToolStart}, "evt.agent.output.toolcall", "out.req." + request, true, request, request},
	{event.BinaryOutput{BinaryID: "b"}, "evt.agent.output.response.binary", "out.req." + request, true, request, request},
	{event.FinalText{FinalText: "x", Usage: &chat.Usage{InputTokens: 1}}, "evt.agent.output.response.text", "out.req." + request, true, request, request},

	{event.SurfaceReanchor{InheritReplyTo: true}, "cmd.surface.output.reanchor", "cmd.surface", true, request, session},
	{event.SurfaceMessageCreated{}, "evt.surface.output.message.created", "evt.surface", true, request, session},

	{event.WorkflowCreate{WorkflowID: "w"}, "cmd.workflow.create", "cmd.workflow", true, request, "w"},
	{event.WorkflowTaskCreate{WorkflowID: "w"}, "cmd.workflow.task.create", "cmd.workflow", true, request, "w"},
	{event.WorkflowCancel{WorkflowID: "w"}, "cmd.workflow.cancel", "cmd.workflow", true, request, "w"},
	{event.WorkflowLifecycleChanged{WorkflowID: "w"}, "evt.workflow.lifecycle.changed", "evt.workflow", true, request, "w"},
	{event.WorkflowOutcome{WorkflowID: "w"}, "evt.workflow.resolved", "evt.workflow", true, request, "w"},
	{event.WorkflowTaskLifecycleChanged{WorkflowID: "w"}, "evt.workflow.task.lifecycle.changed", "evt.workflow", true, request, "w"},
	{event.WorkflowTaskOutcome{WorkflowID: "w"}, "evt.workflow.task.resolved", "evt.workflow", true, request, "w"},
}

func TestEveryTypeGoesWhereTheCatalogSays(t *testing.T) {
	seen := map[event.Type]bool{}
	for _, row := range rows {
		t.Run(string(row.typ), func(t *testing.T) {
			seen[row.typ] = true
			h := event.Headers(nil)
			if row.scoped {
				h = headers
			}
			e, err := event.New(meta(h), row.payload)
			if err != nil {
				t.Fatal(err)
			}
			if e.Type != row.typ || e.Topic != row.topic || e.Key != row.key || e.Lane != row.lane || e.ID != "e1" || !e.Time().Equal(now) {
				t.Errorf("became %+v", e)
			}
			wire, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			var back event.Event
			if err := json.Unmarshal(wire, &back); err != nil {
				t.Fatal(err)
			}
			p, err := event.Decode(back)
			if err != nil {
				t.Fatal(err)
			}
			again, err := event.New(meta(h), p)
			if err != nil || p.EventType() != row.typ {
				t.Fatalf("decoded as %q, %v", p.EventType(), err)
			}
			if diff := cmp.Diff(e, again); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, def := range event.All() {
		if !seen[def.Type] {
			t.Errorf("%q is in the catalog and has no row here", def.Type)
		}
	}
}

func TestARequestEventWithoutItsHeadersFailsByName(t *testing.T) {
	for _, row := range rows {
		for _, name := range []string{event.HeaderRequestID, event.HeaderSessionID, event.HeaderRequestClient} {
			_, err := event.New(meta(headers.With(name, "")), row.payload)
			switch {
			case !row.scoped && err != nil:
				t.Errorf("%s belongs to no request: %v", row.typ, err)
			case row.scoped && (err == nil || !strings.Contains(err.Error(), string(row.typ)) || !strings.Contains(err.Error(), name)):
				t.Errorf("%s without %s: %v", row.typ, name, err)
			}
		}
	}
}

// envelopeIDs lists the ids that a payload must not repeat.
var envelopeIDs = map[string]bool{
	"requestid": true, "sessionid": true, "requestclient": true, "client": true, "key": true, "lane": true, "topic": true,
}

// repeats returns the JSON fields of a type that repeat ids of the envelope.
func repeats(t reflect.Type) (found []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if envelopeIDs[strings.ToLower(strings.ReplaceAll(name, "_", ""))] {
			found = append(found, name)
		}
		found = append(found, repeats(t.Field(i).Type)...)
	}
	return found
}

func TestNoPayloadRepeatsTheEnvelope(t *testing.T) {
	for _, def := range event.All() {
		p, err := event.Decode(event.Event{ID: "e", Type: def.Type, Data: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := repeats(reflect.TypeOf(p)); len(got) > 0 {
			t.Errorf("%s repeats %v", def.Type, got)
		}
	}
	type control struct {
		Inner []struct {
			RequestID string `json:"request_id,omitempty"`
		} `json:"inner"`
	}
	if len(repeats(reflect.TypeFor[control]())) != 1 {
		t.Error("a payload that does repeat an id is not found")
	}
}

func TestAnIncompleteEnvelopeIsRefused(t *testing.T) {
	good, err := event.New(meta(headers), event.RequestReply{})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*event.Event){
		"no id":           func(e *event.Event) { e.ID = "" },
		"no type":         func(e *event.Event) { e.Type = "" },
		"no topic":        func(e *event.Event) { e.Topic = "" },
		"no data":         func(e *event.Event) { e.Data = nil },
		"data is no JSON": func(e *event.Event) { e.Data = json.RawMessage(`{`) },
		"another key":     func(e *event.Event) { e.Key = "web:s1:r2" },
		"no headers":      func(e *event.Event) { e.Headers = nil },
	} {
		e := good
		change(&e)
		if err := e.Validate(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := good.Validate(); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestAnUnknownTypePasses(t *testing.T) {
	e := event.Event{ID: "1", Topic: "evt.tomorrow", Type: "evt.tomorrow.dawned", Data: json.RawMessage(`{"x":1}`)}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := event.Decode(e); !errors.Is(err, event.ErrUnknownType) {
		t.Errorf("decoding says %v", err)
	}
}

func TestDataOfAnotherShapeIsInvalid(t *testing.T) {
	_, err := event.Decode(event.Event{ID: "1", Type: event.OutputDeltaText, Data: json.RawMessage(`{"seq":"x"}`)})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), string(event.OutputDeltaText)) {
		t.Errorf("error is %v", err)
	}
	if _, err := event.Decode(event.Event{ID: "1", Type: event.OutputDeltaText, Data: json.RawMessage(`{"seq":1,"new":true}`)}); err != nil {
		t.Errorf("an unknown field stops a consumer: %v", err)
	}
}

func TestResolvedIsReadAsDone(t *testing.T) {
	p, err := event.Decode(event.Event{ID: "1", Type: event.RequestLifecycleChanged, Data: json.RawMessage(`{"state":"resolved","detail":"d","ts":5}`)})
	if diff := cmp.Diff(event.RequestLifecycle{State: event.StateDone, Detail: "d", TS: 5}, p); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestRequestIDs(t *testing.T) {
	for id, want := range map[string]event.RequestID{
		"discord:123:456":         {Surface: "discord", Session: "123", Specific: "456"},
		"web:s:01J":               {Surface: "web", Session: "s", Specific: "01J"},
		"env:discord:1:e":         {Surface: "env", Session: "discord:1", Specific: "e"},
		"wf:flow:2":               {Surface: "wf", Session: "flow", Specific: "2"},
		"sub:web:s:r:01J":         {Surface: "sub", Session: "web:s:r", Specific: "01J"},
		"discord:123:b01JABCDEFG": {Surface: "discord", Session: "123", Specific: "b01JABCDEFG"},
		"cli:1":                   {Surface: "cli", Specific: "1"},
	} {
		got, err := event.ParseRequestID(id)
		if err != nil || got != want || got.String() != id {
			t.Errorf("%q reads as %+v, %v, and back as %q", id, got, err, got)
		}
	}
	for _, id := range []string{"", "x", ":", ":a:b", "web:s:", "web::x", "web:"} {
		if got, err := event.ParseRequestID(id); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q reads as %+v, %v", id, got, err)
		}
	}
	for _, c := range [][3]string{
		{"web:s:r1", "m2", "web:s:m2"},
		{"env:discord:1:e", "a:b", "env:discord:1:a-b"},
		{"odd", "m", "odd:m"},
	} {
		if got := event.ElseRequest(c[0], c[1]); got != c[2] {
			t.Errorf("instead of %q with %q: %q", c[0], c[1], got)
		}
	}
	if r, ok := event.OutputTopic(request).OutputRequest(); !ok || r != request {
		t.Errorf("the output topic is of %q", r)
	}
	if _, ok := event.TopicRequest.OutputRequest(); ok {
		t.Error("a fixed topic is taken for an output topic")
	}
}

func TestEnvironmentEvents(t *testing.T) {
	in := `{"id":"e1","type":"build.done","timestamp":5,"metadata":{"trigger_session_id":"s1","source":"env","env_name":"","custom":{"a":[1]},"n":null},"payload":{"ok":true}}`
	var env event.EnvEvent
	if err := json.Unmarshal([]byte(in), &env); err != nil {
		t.Fatal(err)
	}
	if env.Metadata.TriggerSessionID != "s1" || env.Metadata.Source != "env" || string(env.Metadata.Extra["custom"]) != `{"a":[1]}` {
		t.Errorf("metadata is %+v", env.Metadata)
	}
	e, err := event.New(event.Meta{ID: env.ID, Time: now}, env)
	if err != nil {
		t.Fatal(err)
	}
	if e.Topic != event.TopicEnv || e.Type != "build.done" || e.Key != "s1" || e.Lane != "s1" {
		t.Errorf("became %+v", e)
	}
	var want, got any
	if json.Unmarshal([]byte(in), &want) != nil || json.Unmarshal(e.Data, &got) != nil {
		t.Fatal("no JSON")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	back, err := event.Decode(e)
	if diff := cmp.Diff(event.Payload(env), back); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestEnvironmentEventsAreChecked(t *testing.T) {
	ok := event.EnvEvent{ID: "1", Type: "a.b_2"}
	for name, c := range map[string]struct {
		change func(*event.EnvEvent)
		field  string
	}{
		"fine":             {func(*event.EnvEvent) {}, ""},
		"no id":            {func(e *event.EnvEvent) { e.ID = "" }, "id"},
		"a huge id":        {func(e *event.EnvEvent) { e.ID = strings.Repeat("x", 257) }, "id"},
		"no type":          {func(e *event.EnvEvent) { e.Type = "" }, "type"},
		"capitals":         {func(e *event.EnvEvent) { e.Type = "Build" }, "type"},
		"a line break":     {func(e *event.EnvEvent) { e.Type = "a\n" }, "type"},
		"a long type":      {func(e *event.EnvEvent) { e.Type = event.Type(strings.Repeat("a", 65)) }, "type"},
		"the bus's own":    {func(e *event.EnvEvent) { e.Type = event.CmdRequestMessage }, "type"},
		"a time":           {func(e *event.EnvEvent) { e.Timestamp = 1_760_000_000_000 }, ""},
		"nanoseconds":      {func(e *event.EnvEvent) { e.Timestamp = 1_760_000_000_000_000_000 }, "timestamp"},
		"a negative time":  {func(e *event.EnvEvent) { e.Timestamp = -1 }, "timestamp"},
		"payload no JSON":  {func(e *event.EnvEvent) { e.Payload = json.RawMessage(`{`) }, "payload"},
		"payload a string": {func(e *event.EnvEvent) { e.Payload = json.RawMessage(`"x"`) }, ""},
	} {
		e := ok
		c.change(&e)
		err := e.Validate()
		var f *fault.Error
		if c.field == "" != (err == nil) || c.field != "" && (!errors.As(err, &f) || f.Field != c.field) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeadersAreCopied(t *testing.T) {
	more := headers.With(event.HeaderDepth, "1")
	if headers[event.HeaderDepth] != "" || more[event.HeaderDepth] != "1" || event.Headers(nil).With("a", "b")["a"] != "b" {
		t.Errorf("%v and %v", headers, more)
	}
	if more.RequestID() != request || more.SessionID() != session || more.Client() != "web" {
		t.Errorf("reads %q %q %q", more.RequestID(), more.SessionID(), more.Client())
	}
}

func TestModesAndStates(t *testing.T) {
	for q, want := range map[event.Queue]bool{event.Prompt: true, event.Steer: true, event.FollowUp: true, event.Interrupt: true, "": false, "followup": false} {
		if q.Valid() != want {
			t.Errorf("%q is valid: %v", q, q.Valid())
		}
	}
	for s, want := range map[event.RequestState]bool{
		event.StateQueued: false, event.StateRunning: false, event.StateStreaming: false,
		event.StateDone: true, event.StateFailed: true, event.StateCancelled: true,
	} {
		if s.Ended() != want {
			t.Errorf("%q has ended: %v", s, s.Ended())
		}
	}
}
