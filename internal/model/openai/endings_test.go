package openai_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// one-api sends [DONE] behind whatever its upstream sent, also if that broke off or reported an
// error in the stream.
func TestAnswersThatAGatewayCut(t *testing.T) {
	const (
		begin  = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
		half   = begin + `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Half of"},"finish_reason":null}]}` + "\n\n"
		reason = `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
		call   = begin + `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ec"}}]},"finish_reason":null}]}` + "\n\n"
		done   = "data: [DONE]\n\n"
	)
	for name, c := range map[string]struct {
		answers []string
		cut     []bool
	}{
		"a host that sends reasons":      {[]string{half + reason + done, half + done, half + reason + done, half + done}, []bool{false, true, false, true}},
		"the same answer again":          {[]string{half + reason + done, half + done, half + done}, []bool{false, true, false}},
		"a host that sends no reasons":   {[]string{half + done, half + done}, []bool{false, false}},
		"a call that ends in its middle": {[]string{call + done, call + done}, []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, c.answers[n])
			}))
			t.Cleanup(host.Close)
			m := openai.New(llm.Options{Provider: "acme", Model: "m", BaseURL: host.URL, Retry: llm.Retry{Max: -1}})
			for n = range c.answers {
				var err error
				for _, e := range m.Stream(t.Context(), llm.Request{Messages: []chat.Message{chat.Text(chat.User, "Hi.")}}) {
					err = e
				}
				if cut := err != nil; cut != c.cut[n] || cut && (fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "broke off")) {
					t.Errorf("answer %d: %v", n, err)
				}
			}
		})
	}
}
