package llm_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

func classify(t *testing.T, status int, header http.Header, body string) *fault.Error {
	t.Helper()
	_, endpoint := llm.Options{Model: "m", KeySetting: "ACME_KEY", APIKey: "secret-key", Headers: http.Header{"Cf-Aig-Authorization": {"Bearer canary-1"}, "X-Retries": {"3"}, "X-Portkey-Provider": {"openai"}}}.Endpoint("acme", "Acme")
	var f *fault.Error
	if err := endpoint.Fault(llm.Refusal(status, header, []byte(body), time.Unix(1_800_000_000, 0))); !errors.As(err, &f) {
		t.Fatalf("error is %v", err)
	}
	return f
}

// One refusal per host, in its own words, with the window that it states.
func TestContextLengthRefusalsAreRecognized(t *testing.T) {
	for host, c := range map[string]struct {
		status int
		body   string
		window int
	}{
		"Anthropic":           {400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}`, 200000},
		"Anthropic, output":   {400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 199500 + 21333 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`, 200000},
		"OpenAI":              {400, `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 8192},
		"OpenAI, newer":       {400, `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","code":null}}`, 0},
		"OpenAI, limit":       {400, `{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens."}}`, 272000},
		"OpenAI, per minute":  {429, `{"error":{"message":"Request too large for gpt-4o in organization org on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}`, 30000},
		"xAI":                 {400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`, 131072},
		"Together":            {422, `{"error":{"message":"The input (13000 tokens) is longer than the model's context length (8192 tokens).","type":"invalid_request_error"}}`, 8192},
		"SGLang":              {400, `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens","type":"BadRequestError","code":400}`, 8192},
		"vLLM":                {400, `{"error":{"message":"The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that ` + "`max_model_len`" + ` is no smaller than the number of text tokens","type":"BadRequestError","param":null,"code":400}}`, 8192},
		"vLLM, parentheses":   {400, `{"object":"error","message":"Input length (265330) exceeds model's maximum context length (262144).","type":"BadRequestError","code":400}`, 262144},
		"vLLM, newer":         {400, `{"error":{"message":"You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 99072 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=99073)","code":"context_length_exceeded"}}`, 131072},
		"llama.cpp, full":     {500, `{"error":{"code":500,"message":"context shift is disabled","type":"server_error"}}`, 0},
		"TGI":                 {422, `{"error":"Input validation error: ` + "`inputs`" + ` must have less than 4095 tokens. Given: 5000","error_type":"validation"}`, 4095},
		"TGI, sum":            {422, `{"error":"Input validation error: ` + "`inputs` tokens + `max_new_tokens`" + ` must be <= 4097. Given: 3903 ` + "`inputs` tokens and 4096 `max_new_tokens`" + `","error_type":"validation"}`, 4097},
		"LM Studio":           {400, `{"error":"Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."}`, 32768},
		"LM Studio, older":    {400, `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input"}`, 0},
		"Ollama":              {400, `{"error":{"message":"the input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}`, 0},
		"Ollama, cloud":       {400, `{"error":"prompt too long; exceeded max context length by 4 tokens"}`, 0},
		"llama.cpp":           {400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}`, 4096},
		"Kimi":                {400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)","type":"invalid_request_error"}}`, 262144},
		"DashScope":           {400, `{"error":{"code":"invalid_parameter_error","param":null,"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]","type":"invalid_request_error"}}`, 98304},
		"Z.ai":                {400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`, 0},
		"Z.ai, flat":          {400, `{"code":"1261","message":"Prompt too long"}`, 0},
		"Z.ai, hub":           {400, `{"error":{"message":"Input length 877338 exceeds the maximum allowed input length of 639968 tokens","code":"400"}}`, 639968},
		"Cohere":              {400, `{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000. Try using a shorter prompt"}`, 4081},
		"Copilot":             {400, `{"error":{"message":"prompt token count of 130000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`, 128000},
		"GitHub Models":       {413, `{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens.","details":"Request body too large"}}`, 8000},
		"NVIDIA":              {400, `{"error":"Input length 9000 exceeds maximum allowed token size 8192"}`, 8192},
		"Mistral":             {400, `{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":3051}`, 32768},
		"Groq":                {413, `{"error":{"message":"Request too large for model llama in organization org on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, 6000},
		"Groq, window":        {400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, 0},
		"Gemini":              {400, `[{"error":{"code":400,"message":"The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, 1048576},
		"OpenRouter":          {400, `{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens.","code":400}}`, 32768},
		"OpenRouter, raw":     {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This model's maximum prompt length is 131072 but the request contains 537812 tokens.\"}}","provider_name":"xAI"}}}`, 131072},
		"OpenRouter, text":    {502, `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"prompt is too long: 213462 tokens > 200000 maximum","provider_name":"Anthropic"}}}`, 200000},
		"MiniMax":             {400, `{"error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)","http_code":"400"}}`, 0},
		"Bedrock":             {400, `{"message":"Input is too long for requested model."}`, 0},
		"Fireworks":           {400, `{"error":{"message":"The prompt is too long: 9000, model maximum context length: 8191"}}`, 8191},
		"watsonx":             {400, `{"errors":[{"code":"invalid_input_argument","message":"the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"}]}`, 4096},
		"a proxy":             {413, `<html>413 Request Entity Too Large</html>`, 0},
		"Cerebras, no body":   {413, ``, 0},
		"a Chinese host":      {400, `{"error":{"message":"输入长度超过模型上限"}}`, 0},
		"a plain text answer": {422, `the conversation is too long`, 0},
	} {
		t.Run(host, func(t *testing.T) {
			f := classify(t, c.status, nil, c.body)
			if f.Code != llm.CodeContextLength || f.Kind != fault.Invalid || !strings.Contains(f.Message, "contextTokens") {
				t.Fatalf("kind %q, code %q, message %q", f.Kind, f.Code, f.Message)
			}
			var e *llm.ProviderError
			if !errors.As(f, &e) {
				t.Fatal("the fault has no provider error")
			}
			learned := &llm.Learned{}
			learned.Learn(*e, llm.Sent{})
			if got := learned.Facts().ContextTokens; got != c.window {
				t.Errorf("learned a window of %d tokens, want %d", got, c.window)
			}
		})
	}
}

func TestOtherRefusalsAreNotAboutContextLength(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"too many requests": {429, `{"error":{"message":"Rate limit reached for requests. Limit: 3 / min."}}`},
		"tokens per minute": {429, `{"error":{"message":"Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5900, Requested 200. Please try again in 1s."}}`},
		"output limit":      {400, `{"error":{"message":"max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for m"}}`},
		"output, OpenAI":    {400, `{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."}}`},
		"deadline":          {504, `{"error":{"message":"context deadline exceeded while waiting for the prompt"}}`},
		"image":             {400, `{"error":{"message":"image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"}}`},
		"key":               {401, `{"error":{"message":"The token is too long or expired"}}`},
		"tools":             {400, `{"error":{"message":"Invalid 'tools': array too long. Expected at most 128 tools, exceeds the maximum"}}`},
		"credit":            {400, `{"error":{"message":"Your request exceeds your credit balance of 10 tokens"}}`},
	} {
		if f := classify(t, c.status, nil, c.body); f.Code == llm.CodeContextLength {
			t.Errorf("%s: taken for a context length refusal: %q", name, f.Message)
		}
	}
}

func TestRefusalsAreClassified(t *testing.T) {
	gemini := func(quota string) string {
		return `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + quota + `"}]}` // closed by the caller
	}
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		kind   fault.Kind
		code   string
		delay  time.Duration
		says   string
	}{
		"rate limit with retry-after-ms": {429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, `{"error":{"message":"slow down"}}`, fault.RateLimited, "", 1500 * time.Millisecond, "slow down"},
		"Gemini, a minute":               {429, nil, gemini("GenerateRequestsPerMinutePerProjectPerModel") + `,{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}]`, fault.RateLimited, "", 37 * time.Second, "current quota"},
		"Gemini, a day":                  {429, nil, gemini("GenerateRequestsPerDayPerProjectPerModel-FreeTier") + `]}}]`, fault.Denied, "quota_exhausted", 0, "current quota"},
		"Groq, a minute":                 {429, nil, `{"error":{"message":"Rate limit reached on tokens per minute (TPM): Limit 6000. Please try again in 7.66s.","code":"rate_limit_exceeded"}}`, fault.RateLimited, "", 7660 * time.Millisecond, "7.66s"},
		"Groq, a day":                    {429, nil, `{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 23m43.5s.","code":"rate_limit_exceeded"}}`, fault.Denied, "quota_exhausted", 23*time.Minute + 43500*time.Millisecond, "tokens per day"},
		"OpenRouter, reset in the body":  {429, nil, `{"error":{"message":"Rate limit exceeded","code":429,"metadata":{"headers":{"X-RateLimit-Reset":"1800000030000"}}}}`, fault.RateLimited, "", -1, "Rate limit exceeded"},
		"OpenRouter, free models":        {429, nil, `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429}}`, fault.Denied, "quota_exhausted", 0, "free-models-per-day"},
		"Anthropic, reset header":        {429, http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"2027-01-15T08:00:20Z"}}, `{"type":"error","error":{"type":"rate_limit_error","message":"too many"}}`, fault.RateLimited, "", 20 * time.Second, "too many"},
		"OpenAI, reset header":           {429, http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m30s"}}, `{"error":{"message":"x","code":"rate_limit_exceeded"}}`, fault.RateLimited, "", 90 * time.Second, ""},
		"resets_in_seconds":              {429, nil, `{"error":{"message":"usage limit","resets_in_seconds":12}}`, fault.RateLimited, "", 12 * time.Second, "usage limit"},
		"DeepSeek, no balance":           {402, nil, `{"error":{"message":"Insufficient Balance"}}`, fault.Denied, "insufficient_quota", 0, "Insufficient Balance"},
		"Z.ai, no balance":               {429, nil, `{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}`, fault.Denied, "insufficient_quota", 0, "recharge"},
		"Moonshot, no balance":           {429, nil, `{"error":{"message":"Your account org is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}`, fault.Denied, "insufficient_quota", 0, "suspended"},
		"an image, 404":                  {404, nil, `{"error":{"message":"No endpoints found that support image input","code":404}}`, fault.Invalid, llm.CodeMediaRefused, 0, "image input"},
		"an image, 500":                  {500, nil, `{"error":{"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","code":500}}`, fault.Invalid, llm.CodeMediaRefused, 0, "mmproj"},
		"an unknown model":               {404, nil, `{"error":{"message":"model \"x\" not found, try pulling it first"}}`, fault.NotFound, "", 0, "pulling"},
		"Ollama, an unknown model":       {404, nil, `{"error":{"message":"model 'm' not found","type":"not_found_error","param":null,"code":null}}`, fault.NotFound, "", 0, `run "ollama pull m".`},
		"Ollama, no tools":               {400, nil, `{"error":{"message":"registry.ollama.ai/library/m:latest does not support tools","type":"invalid_request_error","param":null,"code":null}}`, fault.Invalid, "", 0, "Choose another model."},
		"OpenRouter, no tools":           {404, nil, `{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing","code":404}}`, fault.Invalid, "", 0, "cannot call tools"},
		"FastAPI":                        {422, nil, `{"detail":[{"type":"missing","loc":["body","messages",0,"content"],"msg":"Field required"}]}`, fault.Invalid, "", 0, "body.messages.0.content: Field required"},
		"a web page":                     {502, http.Header{"Content-Type": {"text/html"}}, "<html><title>Bad gateway</title></html>", fault.Unavailable, "", 0, "trouble at the moment."},
		"plain text":                     {503, nil, "upstream connect error", fault.Unavailable, "", 0, "upstream connect error"},
		"a proxy before the host":        {407, nil, "Proxy Authentication Required", fault.Denied, "proxy_login", 0, "HTTPS_PROXY"},
		"Kimi, the end of a plan":        {403, nil, `{"error":{"type":"access_terminated_error","message":"You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle."}}`, fault.Denied, "insufficient_quota", 0, "usage limit is reached"},
		"CLIProxyAPI, all accounts":      {429, nil, `{"error":{"code":"model_cooldown","message":"All credentials for model m1 are cooling down via provider up","model":"m1","provider":"up","reset_seconds":3600}}`, fault.RateLimited, "", time.Hour, "cooling down"},
		"the key is redacted":            {403, nil, `{"message":"no access for secret-key"}`, fault.Denied, "", 0, "***"},
		"the headers are redacted":       {403, nil, `{"message":"openai error 3: canary-1 has no access"}`, fault.Denied, "", 0, "openai error 3: *** has"},
	} {
		t.Run(name, func(t *testing.T) {
			f := classify(t, c.status, c.header, c.body)
			if f.Kind != c.kind || f.Code != c.code || !strings.Contains(f.Message, c.says) || strings.Contains(f.Error(), "secret-key") || strings.Contains(f.Error(), "canary-1") {
				t.Errorf("kind %q, code %q, message %q", f.Kind, f.Code, f.Message)
			}
			if c.delay >= 0 && f.RetryAfter != c.delay {
				t.Errorf("retry after %v, want %v", f.RetryAfter, c.delay)
			}
		})
	}
}
