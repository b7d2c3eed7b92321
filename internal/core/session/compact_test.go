package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// Messages that a summary replaces must not return to the context, even if the summary is all that is
// left and must be shortened itself.
func TestAShorterSummaryRestoresNoOldMessages(t *testing.T) {
	refused, summaries := false, 0
	r := newRig(t, rigOptions{tools: []tool.Tool{silentTool{}}, do: func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(req.System, "You summarise") {
			summaries++
			return chat.Text(chat.Assistant, strings.Repeat("long ", 900>>(4*(summaries-1)))), nil
		}
		switch {
		case strings.Contains(fmt.Sprint(req.Messages), "wake up") && !strings.Contains(fmt.Sprint(req.Messages), "Summary"):
			// This tool call is so long that nothing of the step fits into the context.
			input, _ := json.Marshal(map[string]string{"text": strings.Repeat("write ", 6_000)})
			return chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("c", "silent", input)}}, nil
		case !refused && strings.Contains(fmt.Sprint(req.Messages), "Summary"):
			refused = true
			return chat.Message{}, &fault.Error{Kind: fault.Invalid, Code: "context_length", Message: "Too long."}
		}
		return chat.Text(chat.Assistant, "noted"), nil
	}})
	r.model.window = 8_000
	for i, say := range []string{"one", "two", "wake up"} {
		id := fmt.Sprintf("web:s1:r%d", i)
		r.send(id, fmt.Sprint("m", i), event.Prompt, say)
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
	}
	r.read(func(q db.Queryer) error {
		var compactions int
		if err := q.QueryRow(`SELECT count(*) FROM compactions`).Scan(&compactions); err != nil || compactions != 2 {
			t.Fatalf("%d compactions, %v", compactions, err)
		}
		conv, err := r.store.History.Conversation(q, sid)
		if err != nil {
			return err
		}
		if len(conv.Messages) != 1 || conv.Messages[0].Message.Text() != "noted" {
			t.Errorf("behind the summary stand %d messages, among them %q", len(conv.Messages), conv.Messages[0].Message.Text())
		}
		return nil
	})
}

type silentTool struct{}

func (silentTool) Spec() tool.Spec {
	return tool.Spec{Name: "silent", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (silentTool) Run(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{Text: "ok"}, nil
}
