package openai_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// Parsers of vLLM send the whole input once more at the end, behind all of it or its beginning.
func TestInputsThatEndWithTheWholeInput(t *testing.T) {
	const whole = `{"city": "Berlin", "when": {"day": "支出"}}`
	piece := func(call string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[` + call + `]},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	}
	for name, begin := range map[string]string{
		"glm, without its end":  `{"city": "Berlin", "when": {"day": "支出"`,
		"xlam, the first brace": `{`,
		"xlam, all of it":       whole,
		"nothing":               ``,
	} {
		t.Run(name, func(t *testing.T) {
			body := piece(`{"id":"call_1","type":"function","index":0,"function":{"name":"weather","arguments":""}}`)
			for _, r := range begin {
				body += piece(fmt.Sprintf(`{"index":0,"function":{"arguments":%q}}`, string(r)))
			}
			body += strings.Replace(piece(fmt.Sprintf(`{"id":null,"type":null,"index":0,"function":{"name":null,"arguments":%q}}`, whole)), `"finish_reason":null`, `"finish_reason":"tool_calls"`, 1) + "data: [DONE]\n\n"
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(body))
			}))
			t.Cleanup(host.Close)
			m := openai.New(llm.Options{Provider: "acme", Model: "m", BaseURL: host.URL, Retry: llm.Retry{Max: -1}})
			request := llm.Request{Messages: []chat.Message{chat.Text(chat.User, "Hi.")}, Tools: []llm.ToolSpec{{Name: "weather", Schema: []byte(`{"type":"object"}`)}}}
			var last llm.Chunk
			for c, err := range m.Stream(t.Context(), request) {
				if err != nil {
					t.Fatal(err)
				}
				last = c
			}
			if calls := last.Message.ToolCalls(); len(calls) != 1 || string(calls[0].Input) != whole {
				t.Errorf("calls are %+v", calls)
			}
		})
	}
}
