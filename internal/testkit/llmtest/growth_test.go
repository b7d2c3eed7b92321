package llmtest_test

import (
	"encoding/json"
	"slices"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/llmtest"
)

// The fake accepts a conversation that grows at its end, and one that begins with a summary. It
// refuses one whose beginning has changed, in each protocol.
func TestServerRefusesChangedConversations(t *testing.T) {
	scripts := []llmtest.Script{
		{Reasoning: []string{"hm"}, Text: []string{"Reading."}, Calls: []llmtest.Call{{ID: "c1", Name: "read", Input: `{"path": "a"}`}}},
		llmtest.Say("It is fine."),
	}
	for change, c := range map[string]struct {
		apply   func(r *llm.Request)
		refused bool
	}{
		"nothing": {func(*llm.Request) {}, false},
		"a summary": {func(r *llm.Request) {
			r.Messages = append([]chat.Message{chat.Text(chat.User, "Summary.")}, r.Messages[3:]...)
		}, false},
		"the instructions": {func(r *llm.Request) { r.System = "Another." }, true},
		"a tool":           {func(r *llm.Request) { r.Tools = []llm.ToolSpec{{Name: "read", Description: "Reads."}} }, true},
		"a new tool":       {func(r *llm.Request) { r.Tools = append(r.Tools, llm.ToolSpec{Name: "fly"}) }, true},
		"a result":         {func(r *llm.Request) { r.Messages[2].Parts[0] = chat.ToolResult("c1", "read", "shorter", false) }, true},
		"a message before": {func(r *llm.Request) {
			r.Messages = slices.Insert(r.Messages, 3, chat.Text(chat.User, "too"))
		}, true},
	} {
		t.Run(change, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				r := startServer(t, b, -1, 0, true, scripts...)
				req := llm.Request{
					System: "Be brief.", Tools: []llm.ToolSpec{{Name: "read", Schema: json.RawMessage(`{"type":"object"}`)}},
					Messages: []chat.Message{chat.Text(chat.User, "read it")},
				}
				call := func() chat.Message {
					t.Helper()
					h := collect(t.Context(), r.model, req)
					if h.err != nil {
						t.Fatal(h.err)
					}
					return h.done.Message
				}
				req.Messages = append(req.Messages, call(), chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c1", "read", "a long text", false)}})
				req.Messages = append(req.Messages, call(), chat.Text(chat.User, "and?"))
				if changes := r.server.Changes(); len(changes) > 0 {
					t.Fatalf("the call after a tool is taken for a change: %v", changes)
				}
				c.apply(&req)
				call()
				if changes := r.server.Changes(); len(changes) > 0 != c.refused {
					t.Errorf("changes are %v", changes)
				}
			})
		})
	}
}
