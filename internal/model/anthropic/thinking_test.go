package anthropic_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/anthropic"
	"lilac/internal/model/llm"
)

// lastBody records the body of the last call.
type lastBody struct{ text string }

func (l *lastBody) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	l.text = string(body)
	return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, err
}

// With a thinking budget, the protocol refuses a call that continues an answer without its
// thinking, which a compaction has dropped.
func TestThinkingBudgetIsOmittedBehindAnAnswerWithoutThinking(t *testing.T) {
	thought := chat.Part{Type: chat.TypeReasoning, Text: "hm", ProviderOptions: json.RawMessage(`{"anthropic":{"signature":"s"}}`)}
	called := chat.ToolCall("c", "read", json.RawMessage(`{}`))
	result := chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", "read", "ok", false)}}
	for name, c := range map[string]struct {
		messages []chat.Message
		budget   bool
	}{
		"a new message":    {[]chat.Message{chat.Text(chat.User, "hi")}, true},
		"with thinking":    {[]chat.Message{chat.Text(chat.User, "hi"), {Role: chat.Assistant, Parts: []chat.Part{thought, called}}, result}, true},
		"without thinking": {[]chat.Message{chat.Text(chat.User, "hi"), {Role: chat.Assistant, Parts: []chat.Part{called}}, result}, false},
		"its answer ended": {[]chat.Message{chat.Text(chat.User, "hi"), {Role: chat.Assistant, Parts: []chat.Part{called}}, result, chat.Text(chat.Assistant, "ok"), chat.Text(chat.User, "and?")}, true},
	} {
		var sent lastBody
		m := anthropic.New(llm.Options{
			BaseURL: "http://localhost", Model: "m", MaxOutputTokens: 8000, Tuning: llm.Tuning{ThinkingTokens: 2000},
			HTTPClient: &http.Client{Transport: &sent}, Retry: llm.Retry{Max: -1},
		})
		for range m.Stream(t.Context(), llm.Request{Messages: c.messages}) {
		}
		if has := strings.Contains(sent.text, "budget_tokens"); has != c.budget {
			t.Errorf("%s: the budget is sent: %v", name, has)
		}
	}
}
