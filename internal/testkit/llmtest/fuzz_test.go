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

// cannedResponse is a transport that answers every call with the same event stream.
type cannedResponse string

func (s cannedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(s))),
	}, nil
}

// fuzzStream checks that any response ends in exactly one message, which can be stored
// and sent back, or in exactly one error.
func fuzzStream(f *testing.F, adapter string, seeds ...string) {
	for _, seed := range seeds {
		f.Add(seed)
		f.Add(strings.ReplaceAll(seed, "\n\n", "\r\n\r\n"))
		f.Add(seed[:len(seed)/2])
	}
	f.Fuzz(func(t *testing.T, body string) {
		m := adapters[adapter]("http://model.test", &http.Client{Transport: cannedResponse(body)}, llm.Retry{Max: -1}, time.Minute)
		ended := 0
		for chunk, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "x")}}) {
			if ended > 0 {
				t.Fatal("the stream yields after its end")
			}
			if err != nil || chunk.Kind == llm.ChunkDone {
				ended++
			}
			if err == nil && chunk.Kind == llm.ChunkDone {
				checkRoundTrip(t, m, chunk.Message)
			}
		}
		if ended != 1 {
			t.Errorf("the stream ended %d times", ended)
		}
	})
}

// checkRoundTrip checks that a message survives storage and that the adapter can send
// it back in the next call.
func checkRoundTrip(t *testing.T, m llm.Model, said chat.Message) {
	stored, err := json.Marshal(said)
	if err != nil {
		t.Fatalf("the message cannot be stored: %v", err)
	}
	var loaded chat.Message
	if err := json.Unmarshal(stored, &loaded); err != nil {
		t.Fatalf("%s cannot be loaded: %v", stored, err)
	}
	again, err := json.Marshal(loaded)
	if err != nil || string(again) != string(stored) {
		t.Errorf("stored as %s, then as %s, %v", stored, again, err)
	}
	for _, call := range said.ToolCalls() {
		if !json.Valid(call.Input) {
			t.Errorf("the input %q of a call is no JSON", call.Input)
		}
	}
	for _, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "x"), loaded, chat.Text(chat.User, "y")}}) {
		if err != nil {
			t.Errorf("%s cannot be sent back: %v", stored, err)
		}
	}
}

func events(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

func FuzzAnthropicStream(f *testing.F) {
	const begin = `{"type":"message_start","message":{"model":"m","usage":{"input_tokens":3,"cache_read_input_tokens":1}}}`
	const end = `{"type":"message_stop"}`
	fuzzStream(f, "anthropic",
		events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé😀"}}`, `{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, end),
		events(begin, `{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"a","signature":"b"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"c"}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"x"}}`, end),
		events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"bash","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"not_invented","x":[1]}}`, end),
		events(begin, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"`+"\x84"+`","name":"\ud83d","input":{}}}`, end),
		events(`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`))
}

func FuzzOpenAIStream(f *testing.F) {
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	fuzzStream(f, "openai",
		events(`{"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hé"}}]}`, end,
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`, "[DONE]"),
		events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":"{\"a\""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"name":"read"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`),
		events(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"\ud83d","function":{"name":"`+"\x84"+`","arguments":"{}"}}]}}]}`, end),
		events(`{"choices":[{"delta":{"reasoning_content":"hm","refusal":"no","annotations":[1]}}]}`, end),
		events(`{"error":{"message":"busy","code":429}}`))
}
