package llm_test

import (
	"errors"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// refusal returns the error of a response as it is classified.
func refusal(t *testing.T, status int, header map[string][]string, body string) (*fault.Error, llm.ProviderError) {
	t.Helper()
	f := classify(t, status, header, body)
	var e *llm.ProviderError
	if !errors.As(f, &e) {
		t.Fatalf("%s: there is no provider error", body)
	}
	return f, *e
}

// Every server and gateway has its own sentence for a prompt that is too long, and states the
// window in its own way, if at all.
func TestWordingsOfTooLong(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		window int
	}{
		{400, `{"message":"Malformed input request: expected maxLength: 400000, actual: 500000, please reformat your input and try again."}`, 0},
		{400, `{"message":"Too many input tokens. Max input tokens: 8192, request input token count: 11543"}`, 8192},
		{400, `{"message":"Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}`, 0},
		{400, `{"error":{"message":"Unable to submit request because the input token count is 1100000 but model only supports up to 1048576. Reduce the input token count and try again."}}`, 1048576},
		{400, `{"object":"error","message":"max_tokens must be at least 1, got -1234.","type":"BadRequestError"}`, 0},
		{400, `{"error":{"message":"You passed 5000 input tokens and requested 100 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 3996 tokens. Please reduce the length of the input prompt."}}`, 4096},
		{400, `{"message":"Input length (9001 tokens) exceeds the maximum allowed length (8186 tokens). Use a shorter input or enable --allow-auto-truncate."}`, 8186},
		{400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}`, 4096},
		{400, `{"error":"Reached context length of 4096 tokens with this model, but this model does not currently support mid-generation context overflow"}`, 4096},
		{400, `{"error":{"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"}}`, 8192},
		{500, `{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}`, 0},
		{500, `{"error":{"code":500,"message":"the input prompt is too long; prompt has 9000 tokens, context is 8192","type":"server_error"}}`, 8192},
		{400, `{"error":{"message":"Total message token length exceed model limit (1000000 tokens)"}}`, 1000000},
		{400, `{"error":{"code":"1261","message":"Prompt 超长"}}`, 0},
		{400, `{"message":"too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs, or setting prompt_truncation='AUTO'. The limit for this model is 131072 tokens."}`, 131072},
		{400, `{"message":"Please reduce the length of the messages or completion. Current length is 70000 while limit is 65536","code":"context_length_exceeded"}`, 65536},
		{400, `{"error":{"message":"Requested generation length 1000 is not possible! The provided prompt is 8000 tokens long, so generating 1000 tokens requires a sequence length of 9000, but the maximum supported sequence length is just 8192!"}}`, 8192},
		{400, `{"error":{"message":"Requested input length 150000 exceeds maximum input length 131071"}}`, 131071},
		{400, `{"error":{"code":"InvalidParameter","message":"The request failed because the total tokens of image and text exceed max message tokens"}}`, 0},
		{400, `{"code":20015,"message":"length of prompt_tokens (150000) must be less than max_seq_len (131072).","data":null}`, 131072},
		{400, `{"code":20015,"message":"max_total_tokens (40000) must be less than or equal to max_seq_len (32768)"}`, 32768},
		{400, `{"error":"number of input tokens must be no more than 8192, got 10000"}`, 8192},
		{400, `{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - prompt is too long: 213462 tokens > 200000 maximum"}}`, 200000},
		{400, `{"error":{"type":"ContextWindowExceededError","message":"oops"}}`, 0},
		{400, `{"error":{"message":"This endpoint's maximum context length is 163840 tokens. However, you requested about 170000 tokens (150000 of text input, 10000 of tool input, 10000 in the output). Please reduce the length of either one, or use the context-compression plugin"}}`, 163840},
		{400, `{"error":{"message":"string too long. Expected a string with maximum length 1048576, but got a string with length 2000000 instead","code":"string_above_max_length","param":"messages[3].content"}}`, 0},
		{400, `{"error":{"message":"The prompt has 9000 tokens which is over the limit of 8,192 tokens"}}`, 8192},
		{400, `{"error":{"message":"Token limit exceeded. Your prompt: 40k tokens"}}`, 0},
		{400, `{"error":{"message":"your prompt contains 130000 tokens, the model allows 128000"}}`, 128000},
		{400, `{"error":{"message":"This model supports a maximum of 32768 tokens; the conversation has 40000"}}`, 32768},
		{422, `{"detail":"Input too long"}`, 0},
		{400, `{"error":{"message":"Prompt length (40000) plus max_tokens exceeds n_ctx=32768"}}`, 32768},
		{400, `{"error":{"message":"Context window of 128k tokens exceeded"}}`, 128000},
		{400, `{"error":{"message":"maximum context length is 128K tokens, requested 140000"}}`, 128000},
		{400, `{"error":{"message":"Your request has 300,123 tokens but the context window is 262,144 tokens"}}`, 262144},
		{400, `{"error":{"message":"The total number of tokens in the request (70000) exceeds the model's limit (65536)."}}`, 65536},
		{400, `{"error":{"message":"the message is too long for this model"}}`, 0},
		{400, `{"error":{"message":"Request payload size exceeds the limit: 20971520 bytes."}}`, 0},
		{400, `{"error":{"message":"input_tokens > max_input_tokens"}}`, 0},
		{400, `{"error":{"message":"prompt_too_long"}}`, 0},
		{400, `{"error":{"code":"prompt_too_long","message":"Bad request"}}`, 0},
		{400, `{"error":{"code":"invalid_request_error","message":"tokens in request more than max tokens allowed"}}`, 0},
		{400, `{"error":{"message":"Error: the number of tokens (12000) in the prompt exceeded the model's context (8192)"}}`, 8192},
		{400, `{"error":{"message":"输入内容过长，请缩短后重试"}}`, 0},
		{400, `{"error":{"message":"输入的token数超过了模型的最大上下文长度 32768"}}`, 32768},
		{400, `{"base_resp":{"status_code":1039,"status_msg":"token limit exceeded"}}`, 0},
		{200, `{"base_resp":{"status_code":2013,"status_msg":"invalid params, context window exceeds limit"}}`, 0},
		{400, `{"error_code":336007,"error_msg":"the max input characters is 20000, prompt tokens too long"}`, 0},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 199500 + 21333 > 200000"}}`, 200000},
		{400, `{"error":{"message":"Conversation too long. Please start a new session"}}`, 0},
		{400, `{"error":{"message":"exceeds the maximum number of input tokens: 32000"}}`, 32000},
		{400, `{"error":{"message":"{\"error\":{\"message\":\"This model's maximum prompt length is 131072 but the request contains 537812 tokens.\"}}"}}`, 131072},
		{400, `{"error":{"message":"Requested tokens (8000) exceed context window of 4096"}}`, 4096},
		{400, `{"detail":"Requested tokens (8000) exceed context window of 4096"}`, 4096},
		{400, `{"error":{"message":"Bad Request","details":"Prompt is too long (9000 tokens, maximum is 8192)"}}`, 8192},
		{400, `{"error":{"message":"Provider returned error","metadata":{"raw":"{\"message\":\"Input is too long for requested model.\"}"}}}`, 0},
		{400, `{"error":{"message":"Please use fewer tokens: 40960 tokens are allowed, 50000 were given"}}`, 40960},
	} {
		f, e := refusal(t, c.status, nil, c.body)
		learned := &llm.Learned{}
		learned.Learn(e, llm.Sent{MaxOutputTokens: 8000})
		if got := learned.Facts().ContextTokens; f.Code != llm.CodeContextLength || got != c.window {
			t.Errorf("code %q, a window of %d tokens, want %d: %s", f.Code, got, c.window, c.body)
		}
	}
	for _, c := range []struct {
		status int
		body   string
	}{
		{400, `{"error":{"message":"Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 52 instead."}}`},
		{400, `{"error":{"message":"Invalid 'tools[0].function.description': string too long. Expected a string with maximum length 1024, but got a string with length 2000 instead.","code":"string_above_max_length"}}`},
		{400, `{"error":{"message":"Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.","code":"string_above_max_length","param":"prompt_cache_key"}}`},
		{400, `{"error":{"message":"thinking.budget_tokens: Input should be greater than or equal to 1024"}}`},
		{400, `{"error":{"message":"max_tokens must be greater than thinking.budget_tokens"}}`},
		{400, `{"error":{"message":"messages.5.content.0.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"}}`},
		{400, `{"error":{"message":"messages: at least one message is required"}}`},
		{429, `{"error":{"message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute"}}`},
		{503, `{"error":{"message":"Too many requests in flight, prompt queue exceeded"}}`},
		{500, `{"error":{"message":"Internal error: maximum recursion depth exceeded"}}`},
		{400, `{"error":{"message":"Too many stop sequences. The maximum allowed is 4"}}`},
		{400, `{"error":{"message":"messages.2: too many tool_result blocks; tool name must be shorter than 64"}}`},
		{502, `{"error":{"message":"request exceeded the retry limit"}}`},
		{504, `{"error":{"message":"request exceeded maximum duration"}}`},
		{404, `{"error":{"message":"The model gpt-9 does not exist or you do not have access; context"}}`},
	} {
		if f, _ := refusal(t, c.status, nil, c.body); f.Code == llm.CodeContextLength {
			t.Errorf("taken for a prompt that is too long: %s", c.body)
		}
	}
}

// A refusal of the requested output states how much is possible, and is repeated with that.
func TestWordingsOfTooMuchOutput(t *testing.T) {
	for body, want := range map[string]int{
		`{"message":"The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192."}`:                                        8192,
		`{"error":{"message":"Unable to submit request because it has a maxOutputTokens value of 65536 but the supported range is from 1 (inclusive) to 8193 (exclusive). Update the value."}}`: 8192,
		"{\"error\":{\"message\":\"`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model\"}}":                  8192,
		`{"detail":[{"loc":["body","max_tokens"],"msg":"Input should be less than or equal to 32768"}]}`:                                                                                        32768,
		`{"error":{"message":"Range of max_tokens should be [1, 8192]"}}`:                                                                                                                       8192,
		`{"error":{"message":"max_tokens too large, maximum is 4096"}}`:                                                                                                                         4096,
		`{"error":{"message":"max_completion_tokens: must be at most 16384"}}`:                                                                                                                  16384,
		`{"error":{"message":"The max_tokens parameter exceeds the maximum output of 16384"}}`:                                                                                                  16384,
		`{"error":{"message":"max_tokens: 200000 > 64000, which is the maximum allowed number of output tokens for m"}}`:                                                                        64000,
		`{"error":{"message":"Invalid value for max_output_tokens: integer above maximum value. Expected a value <= 128000, but got 200000 instead.","param":"max_output_tokens"}}`:             128000,
	} {
		f, e := refusal(t, 400, nil, body)
		learned := &llm.Learned{}
		change, again := learned.Learn(e, llm.Sent{MaxOutputTokens: 200_000, Fields: []string{"max_tokens", "max_completion_tokens", "max_output_tokens"}})
		if facts := learned.Facts(); f.Code != "" || !again || change.MaxOutputTokens != want || facts.MaxOutputTokens != want || facts.ContextTokens != 0 {
			t.Errorf("code %q, repeated %v with %d, learned %+v: %s", f.Code, again, change.MaxOutputTokens, facts, body)
		}
	}
}

// Every server names a refused field in its own way. The wanted text is the field that is
// omitted, or what else is learned.
func TestWordingsOfRefusedFields(t *testing.T) {
	fields := []string{"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "top_p", "tools", "role", "content", "reasoning", "reasoning_content", "reasoning_effort", "extra_content", "prompt_cache_key", "include", "summary", "cache_control", "strict"}
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{400, `{"error":{"message":"Stream options can only be defined when stream=True."}}`, "stream_options"},
		{400, `{"error":{"message":"Additional properties are not allowed ('stream_options' was unexpected)"}}`, "stream_options"},
		{500, `{"error":{"message":"create() got an unexpected keyword argument 'stream_options'"}}`, "stream_options"},
		{422, `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`, "stream_options"},
		{422, `{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant","reasoning_content"],"msg":"Extra inputs are not permitted"}]}`, "reasoning_content"},
		{400, `{"error":{"message":"json: unknown field \"stream_options\""}}`, "stream_options"},
		{400, `{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}`, "include"},
		{400, `{"error":{"message":"Your organization must be verified to generate reasoning summaries. Please go to: https://platform.openai.com","param":"reasoning.summary","code":"unsupported_value"}}`, "summary"},
		{400, `{"error":{"message":"invalid temperature: only 0.6 is allowed for this model"}}`, "temperature"},
		{400, `{"error":{"message":"temperature may only be set to 1 when thinking is enabled"}}`, "temperature"},
		{400, `{"error":{"message":"` + "`temperature` and `top_p`" + ` cannot both be specified for this model. Please use only one."}}`, "temperature"},
		{400, `{"error":{"message":"This model does not support the parameter reasoning_effort"}}`, "reasoning_effort"},
		{400, `{"error":{"message":"reasoning_effort: must be one of none, high; 'medium' not supported"}}`, "reasoning_effort"},
		{400, `{"error":{"message":"Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. Please use /v1/responses instead."}}`, ""},
		{400, `{"error":{"message":"messages.0.content.0.cache_control: Extra inputs are not permitted"}}`, "cache_control"},
		{400, `{"error":{"message":"Unknown parameter: 'tools[0].strict'.","param":"tools[0].strict","code":"unknown_parameter"}}`, "strict"},
		{400, `{"error":{"message":"The parameter 'prompt_cache_key' is invalid for this endpoint","code":"invalid_parameter","param":"prompt_cache_key"}}`, "prompt_cache_key"},
		{400, `{"error":{"message":"Unrecognized keys in object: 'streamOptions'"}}`, "stream_options"},
		{400, `{"message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted', 'input': {'include_usage': True}}]"}`, "stream_options"},
		{400, `{"error":{"message":"System role not supported"}}`, "SYSTEM"},
		{400, `{"error":{"message":"Developer instruction is not enabled for models/gemma-3-27b-it"}}`, "SYSTEM"},
		{400, `{"error":"property 'reasoning' is unsupported"}`, "reasoning"},
		{200, `{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`, "stream_options"},
		{400, `{"error":{"message":"Invalid request: field max_tokens removed; use max_completion_tokens"}}`, "RENAME"},
		{400, `{"error":{"message":"max_tokens is not compatible with reasoning models"}}`, "RENAME"},
	} {
		_, e := refusal(t, c.status, nil, c.body)
		if c.status == 200 {
			e.Status = 0 // inside a stream
		}
		learned := &llm.Learned{}
		_, again := learned.Learn(e, llm.Sent{Fields: fields})
		got, facts := "", learned.Facts()
		for name := range facts.Omit {
			got += name
		}
		if facts.NoSystem {
			got += "SYSTEM"
		}
		if facts.Rename["max_tokens"] == "max_completion_tokens" {
			got += "RENAME"
		}
		if got != c.want || again != (c.want != "") {
			t.Errorf("learned %q and repeated %v, want %q: %s", got, again, c.want, c.body)
		}
	}
}

// Limits that end soon are waited for; others are reported at once.
func TestWordingsOfLimits(t *testing.T) {
	for _, c := range []struct {
		status int
		header map[string][]string
		body   string
		code   string // of a limit that no wait restores
		delay  time.Duration
	}{
		{429, nil, `{"error":{"message":"Your team has used all available credits. Please purchase more credits or raise your spending limit."}}`, "insufficient_quota", 0},
		{403, nil, `{"code":"x","error":"Your newly created team doesn't have any credits yet. You can purchase credits"}`, "insufficient_quota", 0},
		{402, nil, `{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 4000.","code":402}}`, "insufficient_quota", 0},
		{200, nil, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, "insufficient_quota", 0},
		{429, nil, `{"message":"You are using a Trial key, which is limited to 1000 API calls / month."}`, "quota_exhausted", 0},
		{429, nil, `{"error":{"code":"RateLimitReached","message":"Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 30000 seconds before retrying."}}`, "quota_exhausted", 30_000 * time.Second},
		{429, nil, `{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2025-10-10 18:22:12"}}`, "quota_exhausted", 0},
		{429, nil, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":3600}}`, "quota_exhausted", time.Hour},
		{429, nil, `{"error":{"message":"Weekly limit reached"}}`, "quota_exhausted", 0},
		{429, nil, `[{"error":{"code":429,"message":"Quota exceeded for metric: generate_requests, limit: 0, model: m","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"12s"}]}}]`, "quota_exhausted", 0},
		{429, nil, `[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDay-FreeTier"}]},{"retryDelay":"12s"}]}}]`, "quota_exhausted", 0},
		{429, nil, `{"error":{"message":"Your quota will reset after 13h45m12s."}}`, "", 13*time.Hour + 45*time.Minute + 12*time.Second},
		{429, nil, `{"error":{"message":"Requests have exceeded token rate limit of your current S0 pricing tier. Please retry after 8 seconds."}}`, "", 8 * time.Second},
		{429, map[string][]string{"X-Ratelimit-Reset-Tokens-Minute": {"42"}, "X-Ratelimit-Remaining-Tokens-Minute": {"0"}, "X-Ratelimit-Reset-Requests-Day": {"9999"}, "X-Ratelimit-Remaining-Requests-Day": {"7"}}, `{"message":"Tokens per minute limit exceeded","code":"token_quota_exceeded"}`, "", 42 * time.Second},
		{429, map[string][]string{"Ratelimit-Reset": {"30"}}, `{"message":"Requests rate limit exceeded"}`, "", 30 * time.Second},
		{429, map[string][]string{"Retry-After": {"30s"}}, `{"message":"x"}`, "", 30 * time.Second},
		{429, nil, `{"error":{"message":"litellm.RateLimitError: geminiException - {\n \"error\": {\n \"code\": 429,\n \"message\": \"quota\",\"details\":[{\"retryDelay\":\"7s\"}]}}"}}`, "", 7 * time.Second},
		{429, nil, `{"error":{"message":"Please try again in 1 minute and 5 seconds"}}`, "", 65 * time.Second},
		{429, nil, `{"error":{"message":"Rate limited","metadata":{"retry_after_seconds":9,"headers":{"X-RateLimit-Limit":"20"}}}}`, "", 9 * time.Second},
		{429, nil, `{"error":{"message":"Slow down.","retryAfter":"1.5s"}}`, "", 1500 * time.Millisecond},
		{429, nil, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m is temporarily rate-limited upstream. Please retry shortly"}}}`, "", 0},
	} {
		f, _ := refusal(t, c.status, c.header, c.body)
		kind := fault.RateLimited
		if c.code != "" {
			kind = fault.Denied
		}
		if f.Kind != kind || f.Code != c.code || f.RetryAfter != c.delay {
			t.Errorf("kind %q, code %q, after %v; want %q, %q, %v: %s", f.Kind, f.Code, f.RetryAfter, kind, c.code, c.delay, c.body)
		}
	}
}

// Some servers refuse what the model wrote instead of a tool call, in different words.
func TestWordingsOfFailedCalls(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"error parsing tool call: raw='{\"cmd\":\"ls', err=unexpected end of JSON input"}}`:            `{"cmd":"ls`,
		`{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: parse error","type":"server_error"}}`: "Failed to parse tool call arguments as JSON: parse error",
		`{"error":{"message":"Failed to call a function.","code":"tool_use_failed","failed_generation":"<function=x>{"}}`:   "<function=x>{",
		`{"error":{"message":"The tools cannot be parsed.","type":"invalid_request_error"}}`:                                "",
	} {
		if _, e := refusal(t, 500, nil, body); e.FailedCall != want {
			t.Errorf("the failed call is %q, want %q: %s", e.FailedCall, want, body)
		}
	}
}
