package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

// What a conversation knows when it begins stays as it is, also after a restart, until a
// compaction. Then it is what a new conversation knows, and what must last is still there.
func TestAnOpeningStaysUntilACompaction(t *testing.T) {
	var systems, conversations []string
	opening := "catalog one"
	o := rigOptions{dir: t.TempDir(), tools: []tool.Tool{silentTool{}}, change: func(o *session.Options) {
		o.Opening = func(context.Context, string, string) string { return opening }
		o.Lasting = func(removed []chat.Message, size int) string {
			if strings.Contains(fmt.Sprint(removed), "lasting") && size > 100 {
				return "lasting text"
			}
			return ""
		}
	}, do: func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(req.System, "You summarise") {
			return chat.Text(chat.Assistant, "A summary."), nil
		}
		systems, conversations = append(systems, req.System), append(conversations, fmt.Sprint(req.Messages))
		return chat.Text(chat.Assistant, "noted"), nil
	}}
	r := newRig(t, o)
	r.model.window = 8_000
	say := func(n int, text string) {
		t.Helper()
		id := fmt.Sprintf("web:s1:r%d", n)
		r.send(id, fmt.Sprint("m", n), event.Prompt, text)
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
	}
	say(1, "one: lasting")
	opening = "catalog two"
	r.stop()
	r = newRig(t, o)
	r.model.window = 8_000
	say(2, "two")
	if !strings.Contains(systems[0], "catalog one") || systems[1] != systems[0] || strings.Contains(conversations[1], "instructions have changed") {
		t.Errorf("the instructions changed from %q to %q, and the conversation is %s", systems[0], systems[1], conversations[1])
	}
	for i := range 6 {
		say(3+i, strings.Repeat("a long message ", 400))
	}
	last := len(systems) - 1
	if !strings.Contains(systems[last], "catalog two") || strings.Contains(systems[last], "catalog one") {
		t.Errorf("after the compaction, the instructions are %q", systems[last])
	}
	if strings.Contains(conversations[last], "one: lasting") || !strings.Contains(conversations[last], "lasting text") {
		t.Errorf("after the compaction, the conversation is %.3000s", conversations[last])
	}
}
