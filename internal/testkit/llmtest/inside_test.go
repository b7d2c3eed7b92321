package llmtest_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// Every adapter understands an error inside a successful response, whatever its shape, and
// shows the server's own sentence.
func TestErrorsInsideSuccessfulResponses(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		kind fault.Kind
		code string
		says string
	}{
		"an event":             {"event: error\ndata: {\"error\":{\"message\":\"the engine died\",\"type\":\"server_error\"}}\n\n", fault.Unavailable, "", "the engine died"},
		"Anthropic's event":    {"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy now\"}}\n\n", fault.Unavailable, "overloaded", "busy now"},
		"flat":                 {"data: {\"object\":\"error\",\"message\":\"bad template\",\"type\":\"BadRequestError\",\"code\":400}\n\n", fault.Invalid, "", "bad template"},
		"flat, an event":       {"data: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"slow down\",\"param\":null}\n\n", fault.RateLimited, "", "slow down"},
		"a text":               {"data: {\"error\":\"the worker was killed\"}\n\n", fault.Unavailable, "", "the worker was killed"},
		"bare":                 {`{"error":{"message":"quota is gone","type":"insufficient_quota"}}`, fault.Denied, "insufficient_quota", "quota is gone"},
		"bare, in lines":       {"{\n  \"error\": {\n    \"message\": \"no such luck\",\n    \"code\": 503\n  }\n}\n", fault.Unavailable, "", "no such luck"},
		"a list":               {`[{"error":{"code":429,"message":"resource is exhausted","status":"RESOURCE_EXHAUSTED"}}]`, fault.RateLimited, "", "resource is exhausted"},
		"too long":             {"data: {\"error\":{\"message\":\"This model's maximum prompt length is 131072 but the request contains 537812 tokens.\"}}\n\n", fault.Invalid, llm.CodeContextLength, "131072"},
		"too long, upstream":   {`data: {"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"Input is too long for requested model.\"}"}}}` + "\n\n", fault.Invalid, llm.CodeContextLength, "Input is too long"},
		"MiniMax":              {`{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, fault.Denied, "insufficient_quota", "insufficient balance"},
		"Baidu":                {`{"error_code":17,"error_msg":"no access for this app","id":"x"}`, fault.Unavailable, "", "no access for this app"},
		"Cloudflare":           {`{"success":false,"errors":[{"code":7009,"message":"upstream broke"}],"result":null}`, fault.Unavailable, "", "upstream broke"},
		"a detail":             {"data: {\"detail\":\"the queue is full\"}\n\n", fault.Unavailable, "", "the queue is full"},
		"a sentence":           {"no healthy upstream", fault.Unavailable, "", "no healthy upstream"},
		"a sentence, no event": {"data: upstream connect error\n\n", fault.Unavailable, "", "upstream connect error"},
		"a web page":           {"<!doctype html><title>Login</title>", fault.Unavailable, llm.CodeBadAnswer, "a web page"},
		"nothing":              {"", fault.Unavailable, "stream_cut", "broke off"},
		"signs of life alone":  {": ping\n\n: ping\n\n", fault.Unavailable, "stream_cut", "broke off"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				m := b("http://model.test", &http.Client{Transport: cannedResponse(c.body)}, llm.Retry{Max: -1}, time.Minute)
				h := collect(t.Context(), m, prompt)
				if h.err == nil {
					t.Fatalf("heard %q and no error", h.text)
				}
				if f := fault.ToWire(h.err); f.Kind != c.kind || f.Code != c.code || !strings.Contains(f.Message, c.says) {
					t.Errorf("kind %q, code %q, message %q", f.Kind, f.Code, f.Message)
				}
			})
		})
	}
}

// A host whose certificate is not trusted, such as an organization's own, is not unreachable: the error
// says so, and what to do.
func TestACertificateThatIsNotTrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		h := collect(t.Context(), b(server.URL, &http.Client{}, llm.Retry{Max: -1}, time.Minute), prompt)
		if f := fault.ToWire(h.err); f.Kind != fault.Denied || f.Code != "certificate" || !strings.Contains(f.Message, "unknown authority") || !strings.Contains(f.Message, "SSL_CERT_FILE") {
			t.Errorf("kind %q, code %q, message %q", f.Kind, f.Code, f.Message)
		}
	})
}

// An answer that a server sends whole, or in its own framing, is understood by every adapter.
func TestWholeAnswersAndOddFraming(t *testing.T) {
	whole := map[string]string{
		"anthropic": `{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Yes."}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":2}}`,
		"responses": `{"object":"response","status":"completed","model":"m","error":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]}],"usage":{"input_tokens":3,"output_tokens":2}}`,
		"openai":    `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
	}
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		pretty := strings.NewReplacer(`,"`, ",\n  \"", "{", "{\n").Replace(whole[name])
		for framing, body := range map[string]string{
			"bare": whole[name], "pretty": pretty, "an event": "data: " + whole[name] + "\n\n", "with the end marker": "data: " + whole[name] + "\n\ndata: [DONE]\n\n",
			"after comments": ": wait\n\n: wait\n\n" + whole[name], "no newline": "data:" + whole[name], "pretty event": "data: " + strings.ReplaceAll(pretty, "\n", "\ndata: ") + "\n\n",
			"a byte order mark": "\xef\xbb\xbf" + whole[name],
		} {
			m := b("http://model.test", &http.Client{Transport: cannedResponse(body)}, llm.Retry{Max: -1}, time.Minute)
			h := collect(t.Context(), m, prompt)
			if h.err != nil || h.text != "Yes." || h.done.Message.Text() != "Yes." || h.done.Usage.InputTokens != 3 {
				t.Errorf("%s: heard %q, %v", framing, h.text, h.err)
			}
		}
	})
}
