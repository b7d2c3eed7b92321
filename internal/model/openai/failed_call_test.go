package openai_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// refusing answers every call with a status and a body.
type refusing struct {
	status int
	body   string
}

func (r refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: r.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// Groq refuses an answer whose tool call it cannot read. The model is told of it as a failed
// call, until it has failed three times in a row.
func TestACallThatTheServerCannotReadIsAFailedCall(t *testing.T) {
	m := openai.New(llm.Options{BaseURL: "http://localhost/v1", Model: "m", Retry: llm.Retry{Max: -1}, HTTPClient: &http.Client{Transport: refusing{
		http.StatusBadRequest, `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=search>{\"query\": \"cats\"</function>"}}`,
	}}})
	messages := []chat.Message{chat.Text(chat.User, "find cats")}
	tools := []llm.ToolSpec{{Name: "search"}}
	for try := 1; try <= 4; try++ {
		var answer chat.Message
		var failed error
		for c, err := range m.Stream(t.Context(), llm.Request{Messages: messages, Tools: tools}) {
			if err != nil {
				failed = err
			}
			if c.Kind == llm.ChunkDone {
				answer = c.Message
			}
		}
		if try == 4 {
			if failed == nil {
				t.Error("the fourth failure in a row does not end the request")
			}
			return
		}
		calls := answer.ToolCalls()
		if failed != nil || len(calls) != 1 || calls[0].ToolName != "search" || !strings.Contains(string(calls[0].ProviderOptions), "rejected: ") {
			t.Fatalf("try %d: %v, %+v", try, failed, answer)
		}
		result := chat.Message{Role: chat.Tool, Parts: []chat.Part{{Type: chat.TypeToolResult, ToolCallID: calls[0].ToolCallID, ToolName: "search"}}}
		messages = append(messages, answer, result)
	}
}
