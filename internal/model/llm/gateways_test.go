package llm_test

import (
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
)

// The answers of gateways to what their upstream refused, as they were seen.
func TestRefusalsThroughGateways(t *testing.T) {
	const trace = `\n    at nt (/app/dist/cjs/server.cjs:67:20940)\n    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)","type":"api_error","code":"provider_response_error"}}`
	router := func(status, quoted string) string {
		once := "Error from provider(up,gpt-4o-mini: " + status + "): " + quoted
		return `{"error":{"message":"` + once + "Error: " + once + trace
	}
	const page = `<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>`
	for name, c := range map[string]struct {
		status  int
		body    string
		kind    fault.Kind
		message string
	}{
		"Claude Code Router, a key": {
			401, router("401", `{\"error\":{\"message\":\"Incorrect API key provided.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":\"invalid_api_key\"}}`),
			fault.Unauthenticated, "Acme did not accept the API key. Check ACME_KEY.",
		},
		"Claude Code Router, a key without a code": {
			401, `{"error":{"message":"Invalid key","type":"api_error","code":"provider_response_error"}}`,
			fault.Unauthenticated, "Acme did not accept the API key. Check ACME_KEY.",
		},
		"Claude Code Router, credit": {
			402, router("402", `{\"error\":{\"message\":\"Insufficient Balance\",\"type\":\"unknown_error\",\"param\":null,\"code\":\"invalid_request_error\"}}`),
			fault.Denied, "spending or usage limit is reached: Error from provider(up,gpt-4o-mini: 402): Insufficient Balance.",
		},
		"Claude Code Router, a limit": {
			429, router("429", `{\"error\":{\"message\":\"Rate limit reached.\",\"type\":\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}`),
			fault.RateLimited, "rate limit is reached: Error from provider(up,gpt-4o-mini: 429): Rate limit reached.",
		},
		"Claude Code Router, an unknown model": {
			404, router("404", `{\"error\":{\"message\":\"The model does not exist.\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}`),
			fault.NotFound, "or its address is wrong: Error from provider(up,gpt-4o-mini: 404): The model does not exist.",
		},
		"Claude Code Router, a page": {
			502, router("502", page),
			fault.Unavailable, "Acme has trouble at the moment: Error from provider(up,gpt-4o-mini: 502): 502 Bad Gateway.",
		},
		"Claude Code Router, no upstream": {
			500, `{"error":{"message":"fetch failedTypeError: fetch failed` + trace,
			fault.Unavailable, "Acme has trouble at the moment: fetch failedTypeError: fetch failed.",
		},
		"Portkey, a page": {
			502, `{"html-message":"` + page + `"}`,
			fault.Unavailable, "Acme has trouble at the moment: 502 Bad Gateway.",
		},
		"Portkey, no upstream": {
			500, `{"html-message":"Message: fetch failed\nCause: SocketError: other side closed\nName: TypeError"}`,
			fault.Unavailable, "Acme has trouble at the moment: Message: fetch failed Cause: SocketError: other side closed Name: TypeError.",
		},
		"Portkey, a page of Anthropic": {
			502, `{"error":{"message":"Invalid response received from anthropic: {\"html-message\":\"` + page + `\"}","type":null,"param":null,"code":null},"provider":"anthropic"}`,
			fault.Unavailable, "Acme has trouble at the moment: Invalid response received from anthropic: 502 Bad Gateway.",
		},
		"one-api, a page of nginx": {
			413, `{"error":{"message":" (request id: 2026120113342458829800580262859)","type":"upstream_error","param":"413","code":"bad_response_status_code"}}`,
			fault.Invalid, "if a proxy limits bodies (nginx: client_max_body_size), raise its limit.",
		},
		"Claude Code Router, an error in a stream": {
			0, `{"type":"error","message":{"type":"api_error","message":"{\"message\":\"The server had an error processing your request.\",\"type\":\"server_error\",\"code\":500}"}}`,
			fault.Unavailable, "Acme has trouble at the moment: The server had an error processing your request.",
		},
		"FastAPI": {
			400, `{"detail":{"error":"chat_completion: Invalid model name passed in model=nosuch"}}`,
			fault.Invalid, "Acme did not accept the request: chat_completion: Invalid model name passed in model=nosuch.",
		},
		"Vercel, an error in a stream": {
			0, `{"id":"gen","object":"chat.completion.chunk","model":"qwen","error":{"code":"error","message":"Stream error occurred","name":"AI_TypeValidationError","value":{"error_type":"validation_error","error_message":"{\"error\":{\"message\":\"This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains at least 40861 input tokens\"}}"}}}`,
			fault.Invalid, "and your prompt contains at least 40861 input tokens. If the model accepts more, set contextTokens of the model under models.",
		},
		"one-api, an unknown model": {
			503, `{"error":{"message":"当前分组 default 下对于模型 nosuch 无可用渠道 (request id: 2026)","type":"one_api_error"}}`,
			fault.NotFound, "无可用渠道 (request id: 2026). Check the name of the model, and the channels of the gateway.",
		},
		"new-api, an unknown model": {
			503, `{"error":{"code":"model_not_found","message":"No available channel for model nosuch under group default (distributor)","type":"new_api_error"}}`,
			fault.NotFound, "Acme has no channel for the model m: No available channel for model nosuch under group default (distributor). Check the name of the model, and the channels of the gateway.",
		},
		"Portkey, no provider": {
			400, `{"status":"failure","message":"Either x-portkey-config or x-portkey-provider header is required"}`,
			fault.Invalid, "Acme did not accept the request: Either x-portkey-config or x-portkey-provider header is required.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := classify(t, c.status, nil, c.body)
			if f.Kind != c.kind || !strings.HasSuffix(f.Message, c.message) {
				t.Errorf("kind %q, message %q", f.Kind, f.Message)
			}
		})
	}
}
