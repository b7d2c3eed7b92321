package e2e_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// What the agent remembers for the operator is in the operator's next conversation, and not
// in one of a program. The change is in the request's story, survives a kill, and can be
// undone.
func TestTheAgentRemembersBetweenConversations(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	m := &v1Model{}
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) == 0 && strings.Contains(last.Text, "remember") {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: `{"command":"tools memory.remember --name=home --text='Lives in canary-town.'; tools memory.remember --name=rule --text=x --for=everyone"}`}}}
		}
		return m.answer(r)
	})
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, `{v1: {tokens: {ide: {token: `+v1Key+`}}}}`)...)...)
	s.Restart()
	a := s.Prompt(s.NewSession(), "remember where I live", event.Prompt)
	s.WaitEnded(a.RequestID, answerWithin)
	var story json.RawMessage
	s.Request("GET", "/requests/"+a.RequestID, nil, &story)
	if !strings.Contains(string(story), `"kind":"memory"`) || !strings.Contains(string(story), "cannot be changed from this conversation") {
		t.Errorf("the story is %s", story)
	}
	s.Kill()
	s.Restart()
	knows := func() bool {
		b := s.Prompt(s.NewSession(), "hello", event.Prompt)
		s.WaitEnded(b.RequestID, answerWithin)
		return strings.Contains(string(m.last().Body), "canary-town")
	}
	if !knows() {
		t.Error("the next conversation does not know it")
	}
	v1(t, t.Context(), s, "chat/completions", chatBody("hello", ""))
	if strings.Contains(string(m.last().Body), "canary-town") {
		t.Error("a program knows it")
	}
	out, err := command(t, s, "requests", "show", a.RequestID, "--addr", s.Addr)
	if err != nil || !strings.Contains(out, "remembered people/operator/home") {
		t.Errorf("the story on the command line is %v: %s", err, out)
	}
	change := regexp.MustCompile(`lilac memory undo ([0-9a-z]+)`).FindStringSubmatch(out)
	if len(change) != 2 {
		t.Fatalf("the story names no change: %s", out)
	}
	if out, err := command(t, s, "memory", "list"); err != nil || !strings.Contains(out, "canary-town") {
		t.Errorf("the list is %v: %s", err, out)
	}
	if out, err := command(t, s, "memory", "undo", change[1]); err != nil || !strings.Contains(out, "removed people/operator/home") {
		t.Errorf("undo: %v: %s", err, out)
	}
	if knows() {
		t.Error("after the undo, a conversation still knows it")
	}
}
