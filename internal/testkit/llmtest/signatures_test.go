package llmtest_test

import (
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/llmtest"
)

// Thinking is sent back only behind the conversation in which it was made, so that a
// changed system prompt or a compaction does not make later requests fail.
func TestThinkingIsDroppedWhenTheConversationBeforeItChanged(t *testing.T) {
	script := llmtest.Script{Reasoning: []string{"hm"}, Signature: "sig==", Text: []string{"Yes."}}
	for name, c := range map[string]struct {
		change func(*llm.Request)
		sent   bool
	}{
		"unchanged":               {func(*llm.Request) {}, true},
		"another system prompt":   {func(r *llm.Request) { r.System += " It is Tuesday." }, false},
		"another tool":            {func(r *llm.Request) { r.Tools = []llm.ToolSpec{{Name: "new"}} }, false},
		"another earlier message": {func(r *llm.Request) { r.Messages[0] = chat.Text(chat.User, "A summary.") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := startServer(t, adapters["anthropic"], -1, 0, true, script)
			h := collect(t.Context(), r.model, prompt)
			if h.err != nil {
				t.Fatal(h.err)
			}
			next := prompt
			next.Messages = append(next.Messages[:1:1], h.done.Message, chat.Text(chat.User, "and?"))
			c.change(&next)
			if h := collect(t.Context(), r.model, next); h.err != nil {
				t.Fatal(h.err)
			}
			requests := r.server.Requests()
			if sent := strings.Contains(string(requests[len(requests)-1].Body), "sig=="); sent != c.sent || len(requests) != 2 {
				t.Errorf("thinking sent: %v, after %d requests", sent, len(requests))
			}
		})
	}
}

// Control: the fake refuses thinking behind another conversation, and the adapter repeats
// the call once without it.
func TestRefusedThinkingIsOmittedOnce(t *testing.T) {
	script := llmtest.Script{Reasoning: []string{"hm"}, Signature: "sig==", Text: []string{"Yes."}}
	r := startServer(t, adapters["anthropic"], -1, 0, true, script)
	h := collect(t.Context(), r.model, prompt)
	if h.err != nil {
		t.Fatal(h.err)
	}
	old := h.done.Message
	old.ProviderOptions = nil // as messages of earlier versions
	next := prompt
	next.System = "Changed."
	next.Messages = append(next.Messages[:1:1], old, chat.Text(chat.User, "and?"))
	if h := collect(t.Context(), r.model, next); h.err != nil || r.server.Count() != 3 {
		t.Errorf("after %d requests: %v", r.server.Count(), h.err)
	}
}
