package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// Servers that speak the protocol in their own way, as seen in the wild.
func TestDialectsAreDecoded(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []string
		text   string
		calls  []string
		stop   llm.StopReason
	}{
		"no index, whole calls": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}},{"id":"b","function":{"name":"y","arguments":"{\"n\":1}"}}]},"finish_reason":"stop"}]}`},
			"",
			[]string{"a x {}", `b y {"n":1}`},
			llm.StopTools,
		},
		"always index 0": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			"",
			[]string{"a x {}", "b y {}"},
			llm.StopTools,
		},
		"id and name in every piece": {
			[]string{
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`,
			},
			"",
			[]string{`a x {"n":1}`},
			llm.StopTools,
		},
		"arguments as an object": {
			[]string{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":{"n":1}}}]},"finish_reason":"tool_calls"}]}`},
			"",
			[]string{`a x {"n":1}`},
			llm.StopTools,
		},
		"content as parts, no finish reason": {
			[]string{`{"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`, `[DONE]`},
			"ab", nil, llm.StopEnd,
		},
		"a refusal": {
			[]string{`{"choices":[{"delta":{"refusal":"No."},"finish_reason":"stop"}]}`, `[DONE]`},
			"No.", nil, llm.StopRefusal,
		},
		"the end without [DONE]": {
			[]string{`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`},
			"a", nil, llm.StopEnd,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, chunk := range c.chunks {
					_, _ = fmt.Fprintf(w, "data: %s\n\n", chunk)
				}
			}))
			defer s.Close()
			m := openai.New(llm.Options{BaseURL: s.URL, Model: "m", HTTPClient: s.Client()})
			for chunk, err := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "x")}}) {
				if err != nil {
					t.Fatal(err)
				}
				if chunk.Kind != llm.ChunkDone {
					continue
				}
				var calls []string
				for _, p := range chunk.Message.ToolCalls() {
					calls = append(calls, fmt.Sprint(p.ToolCallID, " ", p.ToolName, " ", string(p.Input)))
				}
				if diff := cmp.Diff(c.calls, calls); diff != "" || chunk.Message.Text() != c.text || chunk.Stop != c.stop {
					t.Errorf("text %q, stop %q, calls %s", chunk.Message.Text(), chunk.Stop, diff)
				}
			}
		})
	}
}
