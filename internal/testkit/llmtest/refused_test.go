package llmtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// refusesOnce is a transport that refuses every body with a text, and answers others.
type refusesOnce struct {
	text, refusal, answer string
	status                int
	bodies                []string
}

func (r *refusesOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	r.bodies = append(r.bodies, string(body))
	status, answer := http.StatusOK, r.answer
	if strings.Contains(string(body), r.text) {
		status, answer = r.status, r.refusal
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, err
}

// A refused field is omitted wherever it is: in the body, in a message, a block, a tool, or its
// schema. What else the model has said stays.
func TestRefusedFieldsAreOmittedEverywhere(t *testing.T) {
	thought := map[string]json.RawMessage{
		"anthropic": json.RawMessage(`{"anthropic":{"signature":"sig"}}`),
		"openai":    json.RawMessage(`{"openai":{"field":"reasoning_content"}}`),
		"responses": json.RawMessage(`{"openai":{"encryptedContent":"enc"}}`),
	}
	for _, c := range []struct {
		adapter, text, refusal string
		status                 int
		stays                  string
	}{
		{"anthropic", `"cache_control"`, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.0.content.0.cache_control: Extra inputs are not permitted"}}`, 400, `"hm"`},
		{"anthropic", `"cache_control"`, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.0.cache_control: Extra inputs are not permitted"}}`, 422, `"hm"`},
		{"responses", `"strict"`, `{"error":{"message":"Unknown parameter: 'tools[0].strict'.","param":"tools[0].strict","code":"unknown_parameter"}}`, 400, `"enc"`},
		{"responses", `"phase"`, `{"error":{"message":"Unknown parameter: 'input[2].phase'.","param":"input[2].phase","code":"unknown_parameter"}}`, 400, `"enc"`},
		{"responses", `"include"`, `{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}`, 400, `"Look."`},
		{"responses", `"summary":"auto"`, `{"error":{"message":"Your organization must be verified to generate reasoning summaries.","param":"reasoning.summary","code":"unsupported_value"}}`, 400, `"Look."`},
		{"openai", `"reasoning_content"`, `{"detail":[{"type":"extra_forbidden","loc":["body","messages",1,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted"}]}`, 422, `"Look."`},
		{"openai", `"stream_options"`, `{"error":{"message":"create() got an unexpected keyword argument 'stream_options'"}}`, 500, `"hm"`},
		{"anthropic", `"maxLength"`, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"}}`, 400, `"path"`},
		{"responses", `"maxLength"`, `{"error":{"message":"Invalid schema for function 'read': In context=('properties', 'path'), 'maxLength' is not permitted.","param":"tools[0].parameters","code":"invalid_function_parameters"}}`, 400, `"path"`},
		{"openai", `"maxLength"`, `{"error":{"code":400,"message":"Failed to initialize samplers: failed to parse grammar","type":"invalid_request_error"}}`, 400, `"path"`},
		{"openai", `"role":"system"`, `{"error":{"message":"System role not supported"}}`, 400, `Be brief.`},
	} {
		server := &refusesOnce{text: c.text, refusal: c.refusal, status: c.status, answer: usageStreams[c.adapter].answer("{}")}
		m := adapters[c.adapter]("http://model.test", &http.Client{Transport: server}, llm.Retry{Max: -1}, time.Minute)
		text := chat.TextPart("Look.")
		text.ProviderOptions = json.RawMessage(`{"openai":{"phase":"commentary"}}`)
		req := prompt
		req.Tools = []llm.ToolSpec{{Name: "read", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","maxLength":65536}}}`)}}
		req.Messages = []chat.Message{
			chat.Text(chat.User, "hi"),
			{Role: chat.Assistant, Parts: []chat.Part{{Type: chat.TypeReasoning, Text: "hm", ProviderOptions: thought[c.adapter]}, text, chat.ToolCall("c", "read", json.RawMessage(`{}`))}},
			{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", "read", "ok", false)}},
		}
		for call := range 2 {
			if h := collect(t.Context(), m, req); h.err != nil || h.text != "Yes." || len(server.bodies) != call+2 {
				t.Errorf("%s refuses %s: heard %q after %d calls, %v", c.adapter, c.text, h.text, len(server.bodies), h.err)
				break
			}
		}
		if last := server.bodies[len(server.bodies)-1]; !strings.Contains(last, c.stays) {
			t.Errorf("%s refuses %s: %s is gone: %s", c.adapter, c.text, c.stays, last)
		}
	}
}
