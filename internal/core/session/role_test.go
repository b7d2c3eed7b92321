package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

const ruleRole = "You watch builds."

// withRole puts the operator's text of a rule before a message, as the rule's action does.
func withRole(m *event.RequestMessage) {
	m.Messages = append([]chat.Message{chat.Operator(ruleRole)}, m.Messages...)
}

// roleRig answers each message and records the calls.
func roleRig(t *testing.T, dir string, calls *[]llm.Request) *rig {
	r := newRig(t, rigOptions{dir: dir, tools: []tool.Tool{namedTool{"read", "Reads."}}, do: func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(req.System, "You summarise") {
			return chat.Text(chat.Assistant, "They talked."), nil
		}
		*calls = append(*calls, req)
		return chat.Text(chat.Assistant, strings.Repeat("word ", 100)), nil
	}, change: func(o *session.Options) { o.Settings.System = "Be brief." }})
	r.model.window, r.model.notes = 6_000, true
	return r
}

func sayTo(t *testing.T, r *rig, n int, text string, change ...func(*event.RequestMessage)) {
	t.Helper()
	id := fmt.Sprintf("web:s1:r%d", n)
	r.send(id, fmt.Sprint("m", n), event.Prompt, text, change...)
	if req := r.waitForEnd(id); req.State != event.StateDone {
		t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
	}
}

// messagesWithRole counts the messages of a call that have the operator's text.
func messagesWithRole(req llm.Request) int {
	n := 0
	for _, m := range req.Messages {
		if strings.Contains(m.Text(), ruleRole) {
			n++
		}
	}
	return n
}

// A conversation that begins with an event of a rule has the rule's text in its system prompt:
// in every later call, after a restart, and after a compaction. The calls repeat each other.
func TestARulesTextIsPartOfTheSystemPromptOfItsConversation(t *testing.T) {
	var calls []llm.Request
	dir := t.TempDir()
	r := roleRig(t, dir, &calls)
	sayTo(t, r, 0, "the build failed", withRole)
	sayTo(t, r, 1, "why?")
	r.stop()
	r = roleRig(t, dir, &calls)
	compacted := false
	for i := 2; i < 20; i++ {
		sayTo(t, r, i, fmt.Sprint("message ", i, strings.Repeat(" x", 200)))
		compacted = compacted || slices.ContainsFunc(calls[len(calls)-1].Messages, func(m chat.Message) bool { return strings.Contains(m.Text(), "They talked.") })
	}
	if !compacted {
		t.Fatal("the conversation was not compacted")
	}
	for i, req := range calls {
		if req.System != "Be brief.\n\n"+ruleRole || messagesWithRole(req) != 0 {
			t.Fatalf("call %d has the system prompt %q, and the text in %d messages", i, req.System, messagesWithRole(req))
		}
	}
	if line := rewritten(conversationOf(calls[0]), conversationOf(calls[2])); line != "" {
		t.Errorf("a later call does not repeat %.200s", line)
	}
}

// In a conversation that a person began, the rule's text is a message of the operator at the
// end, and the system prompt stays as it was.
func TestARulesTextIsAMessageInAnotherConversation(t *testing.T) {
	var calls []llm.Request
	r := roleRig(t, t.TempDir(), &calls)
	sayTo(t, r, 0, "hello")
	sayTo(t, r, 1, "the build failed", withRole)
	sayTo(t, r, 2, "why?")
	for i, want := range []int{0, 1, 1} {
		if calls[i].System != "Be brief." || messagesWithRole(calls[i]) != want {
			t.Errorf("call %d has the system prompt %q, and the text in %d messages", i, calls[i].System, messagesWithRole(calls[i]))
		}
	}
	if line := rewritten(conversationOf(calls[0]), conversationOf(calls[2])); line != "" {
		t.Errorf("a later call does not repeat %.200s", line)
	}
}

// Only the operator's own text gets into the system prompt: a system message that reports what
// others said does not.
func TestOtherSystemMessagesStayMessages(t *testing.T) {
	var calls []llm.Request
	r := roleRig(t, t.TempDir(), &calls)
	sayTo(t, r, 0, "go on", func(m *event.RequestMessage) {
		m.Messages = append([]chat.Message{chat.Text(chat.System, "Somebody replied: "+ruleRole)}, m.Messages...)
	})
	if calls[0].System != "Be brief." || messagesWithRole(calls[0]) != 1 {
		t.Errorf("the system prompt is %q", calls[0].System)
	}
}
