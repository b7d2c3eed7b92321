package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/effort"
)

// told returns the environment events about a request, in order: their type and the named fields of
// their payload. It omits the events about the request's session.
func (r *rig) told(requestID string, names ...string) (out []string) {
	r.t.Helper()
	for _, e := range r.events(event.TopicEnv) {
		p, err := event.Decode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		env := p.(event.EnvEvent)
		if string(env.Metadata.Extra[event.MetadataRequest]) != `"`+requestID+`"` || strings.HasPrefix(string(env.Type), "session.") {
			continue
		}
		var payload map[string]json.RawMessage
		if err := json.Unmarshal(env.Payload, &payload); err != nil {
			r.t.Fatal(err)
		}
		line := string(env.Type) + " from " + env.Metadata.Source + " in " + env.Metadata.TriggerSessionID
		for _, name := range names {
			if v, ok := payload[name]; ok {
				line += " " + name + "=" + string(v)
			}
		}
		out = append(out, line)
	}
	return out
}

// stream_event_published, stream_event_metadata: the events of a request become environment events.
// Stream events have the source "llm", tool events the source "tool".
func TestToolCallsOfARequestBecomeEnvironmentEvents(t *testing.T) {
	twice := func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		switch n := len(req.Messages); {
		case n < 2:
			return callCount("c1"), nil
		case n < 4:
			return callCount("c2"), nil
		}
		return echo(ctx, req, say)
	}
	tries := 0
	r := newRig(t, rigOptions{do: twice, tools: []tool.Tool{&counter{do: func(context.Context) error {
		if tries++; tries == 2 {
			return errors.New("no such file")
		}
		return nil
	}}}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.waitForEnd("web:s1:r1")
	got := r.told("web:s1:r1", "name", "toolCallId", "output", "content", "cancelled")
	if len(got) != 4 || !strings.Contains(strings.Join(r.told("web:s1:r1", "error"), "\n"), "tool.error from tool in s1 error=") {
		t.Fatalf("told %q", got)
	}
	want := []string{
		"stream.start from llm in s1",
		`tool.executed from tool in s1 name="count" toolCallId="c1" output="counted 1"`,
		`tool.error from tool in s1 name="count" toolCallId="c2"`,
		`stream.completed from llm in s1 content="counting\n\ncounting\n\necho: go"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A client that shows a tool's output live can tell that the stored output is longer.
func TestALongToolOutputIsMarkedAsTruncated(t *testing.T) {
	outputs := []string{strings.Repeat("x", 5000), "short"}
	twice := func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if n := len(req.Messages) / 2; n < len(outputs) {
			return callCount(fmt.Sprint("c", n)), nil
		}
		return echo(ctx, req, say)
	}
	ran := 0
	r := newRig(t, rigOptions{do: twice, tools: []tool.Tool{&counter{do: func(context.Context) error {
		ran++
		return errors.New(outputs[ran-1])
	}}}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.waitForEnd("web:s1:r1")
	truncated := map[string]bool{}
	for _, e := range r.events(event.OutputTopic("web:s1:r1")) {
		p, err := event.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		if shown, is := p.(event.ToolCallOutput); is && shown.Status == event.ToolEnd {
			truncated[shown.ToolCallID] = shown.Truncated
		}
	}
	if want := map[string]bool{"c0": true, "c1": false}; !maps.Equal(truncated, want) {
		t.Errorf("truncated: %v, want %v", truncated, want)
	}
}

func TestTheEndOfARequestBecomesAnEnvironmentEvent(t *testing.T) {
	broken := errors.New("no model here")
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		switch lastUser(req) {
		case "fail":
			return chat.Message{}, broken
		case "wait":
			say("well")
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}
		long := strings.Repeat("ä", 20_000)
		say(long)
		return chat.Text(chat.Assistant, long), nil
	}})
	r.send("web:s1:fails", "m1", event.Prompt, "fail")
	r.waitForEnd("web:s1:fails")
	if got := r.told("web:s1:fails", "error"); len(got) != 2 || !strings.HasPrefix(got[1], "stream.error from llm in s1 error={") {
		t.Errorf("a failed request tells %q", got)
	}
	r.send("web:s1:stops", "m2", event.Prompt, "wait")
	waitUntil(t, "it runs", func() bool { return r.svc.Active() == 1 && len(r.told("web:s1:stops")) == 1 })
	r.send("web:s1:queued", "m3", event.Prompt, "later")
	waitUntil(t, "one waits", func() bool { return len(r.states("web:s1:queued")) == 1 })
	r.cancel("web:s1:queued", true)
	r.waitForEnd("web:s1:queued")
	r.cancel("web:s1:stops", false)
	r.waitForEnd("web:s1:stops")
	for id, n := range map[string]int{"web:s1:stops": 2, "web:s1:queued": 1} {
		if got := r.told(id, "cancelled"); len(got) != n || got[n-1] != "stream.completed from llm in s1 cancelled=true" {
			t.Errorf("%s tells %q", id, got)
		}
	}
	r.send("web:s1:long", "m4", event.Prompt, "talk")
	r.waitForEnd("web:s1:long")
	got := r.told("web:s1:long", "content", "truncated")
	if len(got) != 2 || len(got[1]) > 40<<10 || !strings.HasSuffix(got[1], "truncated=true") {
		t.Errorf("a long answer tells %d events, the last with %d bytes", len(got), len(got[len(got)-1]))
	}
}

// If a crash interrupts a tool, its outcome is unknown when the request is given up. That is reported
// as a tool.error event, too.
func TestAToolCallWithAnUnknownOutcomeBecomesAnEnvironmentEvent(t *testing.T) {
	effort.SkipSlow(t)
	r := untilGivenUp(t, func(context.Context, llm.Request, func(string)) (chat.Message, error) { return callCount("c1"), nil })
	got := r.told("web:s1:r1", "name", "toolCallId")
	want := []string{"stream.start from llm in s1", `tool.error from tool in s1 name="count" toolCallId="c1"`, "stream.error from llm in s1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The events of a sub-agent's session name it; those of others name no agent.
func TestEventsNameTheSubAgent(t *testing.T) {
	r := newRig(t, rigOptions{do: echo, change: func(o *session.Options) { o.Surfaces = fakeSurfaces{} }})
	r.send("web:s1:r1", "m1", event.Prompt, "hello")
	r.waitForEnd("web:s1:r1")
	r.publishTo("sub-t7", "sub:sub-t7:r2", "m2", event.RequestMessage{Queue: event.Prompt, MessageID: "m2", Messages: []chat.Message{chat.Text(chat.User, "count")}})
	r.waitForEnd("sub:sub-t7:r2")
	named := 0
	for _, e := range r.events(event.TopicEnv) {
		p, err := event.Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		m := p.(event.EnvEvent).Metadata
		want := [2]string{}
		if m.TriggerSessionID == "sub-t7" {
			want = [2]string{"t7", "count the files"}
			named++
		}
		if got := [2]string{m.TriggerAgentID, m.TriggerAgentName}; got != want {
			t.Errorf("%s of %s names the agent %q", e.Type, m.TriggerSessionID, got)
		}
	}
	if named < 2 {
		t.Errorf("%d events name the sub-agent", named)
	}
}
