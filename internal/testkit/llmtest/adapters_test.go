package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/anthropic"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/model/responses"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	key     = "sk-canary-of-the-test"
	setting = "providers.mine.apiKey" // names the setting of the key
)

// build returns an adapter for a fake provider.
type build func(url string, c *http.Client, r llm.Retry, idle time.Duration) llm.Model

var adapters = map[string]build{
	"anthropic": func(url string, c *http.Client, r llm.Retry, idle time.Duration) llm.Model {
		return anthropic.New(llm.Options{
			BaseURL: url, APIKey: key, KeySetting: setting, Model: "m", Images: true, PDFs: true, HTTPClient: c, Retry: r, FirstToken: idle, Silence: idle,
			Price: &llm.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		})
	},
	"responses": func(url string, c *http.Client, r llm.Retry, idle time.Duration) llm.Model {
		return responses.New(llm.Options{
			BaseURL: url, APIKey: key, KeySetting: setting, Model: "m", Images: true, PDFs: true, HTTPClient: c, Retry: r, FirstToken: idle, Silence: idle,
			Price: &llm.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		})
	},
	"openai": func(url string, c *http.Client, r llm.Retry, idle time.Duration) llm.Model {
		return openai.New(llm.Options{
			BaseURL: url, APIKey: key, KeySetting: setting, Model: "m", Images: true, PDFs: true, HTTPClient: c, Retry: r, FirstToken: idle, Silence: idle,
			Price: &llm.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75},
		})
	},
}

// result is the decoded stream.
type result struct {
	text, reasoning string
	starts          []string
	inputs          map[string]string
	done            *llm.Chunk
	err             error
	chunks          int
}

func collect(ctx context.Context, m llm.Model, req llm.Request) result {
	h := result{inputs: map[string]string{}}
	for c, err := range m.Stream(ctx, req) {
		if err != nil {
			h.err = err
			continue
		}
		h.chunks++
		switch c.Kind {
		case llm.ChunkText:
			h.text += c.Text
		case llm.ChunkReasoning:
			h.reasoning += c.Text
		case llm.ChunkToolStart:
			h.starts = append(h.starts, c.ToolCallID+"="+c.ToolName)
		case llm.ChunkToolInput:
			h.inputs[c.ToolCallID] += c.Text
		case llm.ChunkDone:
			h.done = &c
		}
	}
	return h
}

var prompt = llm.Request{System: "Be brief.", Messages: []chat.Message{chat.Text(chat.User, "hi")}, Session: "s"}

type fixture struct {
	server *llmtest.Server
	model  llm.Model
	pauses *[]time.Duration
}

func start(t *testing.T, b build, retries int, idle time.Duration, scripts ...llmtest.Script) fixture {
	t.Helper()
	return startServer(t, b, retries, idle, false, scripts...)
}

func startServer(t *testing.T, b build, retries int, idle time.Duration, allowChanges bool, scripts ...llmtest.Script) fixture {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	s := llmtest.New(t, llmtest.Sequence(scripts...), func(o *llmtest.Options) { o.AllowChanges = allowChanges })
	var pauses []time.Duration
	retry := llm.Retry{
		Max: retries, Jitter: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, d time.Duration) error { pauses = append(pauses, d); return ctx.Err() },
	}
	return fixture{s, b(s.URL, client, retry, idle), &pauses}
}

func forEachAdapter(t *testing.T, f func(t *testing.T, name string, b build)) {
	for name, b := range adapters {
		t.Run(name, func(t *testing.T) { f(t, name, b) })
	}
}

func TestCompleteAnswerIsDecoded(t *testing.T) {
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		r := start(t, b, 0, 0, llmtest.Script{
			Reasoning: []string{"let me ", "see"}, Signature: "sig==", Text: []string{"I ", "will ", "lōok ✓"},
			Calls: []llmtest.Call{
				{ID: "call-a", Name: "bash", Input: `{"command":"ls -la | grep ‘x’"}`, Pieces: 11},
				{ID: "call-b", Name: "read", Input: `{"path":"a"}`, Pieces: 4},
			},
			Interleave: true, Noise: true,
			Usage: llmtest.Usage{Input: 1000, Output: 50, CacheRead: 600, CacheWrite: 100},
		})
		h := collect(t.Context(), r.model, prompt)
		if h.err != nil {
			t.Fatal(h.err)
		}
		if h.text != "I will lōok ✓" || h.reasoning != "let me see" {
			t.Errorf("heard text %q and reasoning %q", h.text, h.reasoning)
		}
		if diff := cmp.Diff([]string{"call-a=bash", "call-b=read"}, h.starts); diff != "" {
			t.Error(diff)
		}
		calls := h.done.Message.ToolCalls()
		if len(calls) != 2 || string(calls[0].Input) != `{"command":"ls -la | grep ‘x’"}` || string(calls[1].Input) != `{"path":"a"}` {
			t.Errorf("calls are %+v", calls)
		}
		for _, c := range calls {
			if h.inputs[c.ToolCallID] != string(c.Input) {
				t.Errorf("the streamed input of %s is %q", c.ToolCallID, h.inputs[c.ToolCallID])
			}
		}
		want := chat.Usage{InputTokens: 1000, OutputTokens: 50, CacheReadTokens: 600, CacheWriteTokens: 100, CostMicros: 900 + 750 + 180 + 375}
		if diff := cmp.Diff(want, h.done.Usage); diff != "" {
			t.Error(diff)
		}
		if h.done.Stop != llm.StopTools {
			t.Errorf("stop is %q", h.done.Stop)
		}
		if got := h.done.Message.Parts[0].Type; got != chat.TypeReasoning {
			t.Errorf("the first part is %q", got)
		}
	})
}

func TestPartCountIsBounded(t *testing.T) {
	effort.SkipSlow(t)
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		for n, good := range map[int]bool{150: true, llm.MaxParts: true, llm.MaxParts + 1: false} {
			calls := make([]llmtest.Call, n)
			for i := range calls {
				calls[i] = llmtest.Call{ID: fmt.Sprint("call-", i), Name: "read", Input: `{}`}
			}
			h := collect(t.Context(), start(t, b, -1, 0, llmtest.Script{Calls: calls}).model, prompt)
			if (h.err == nil) != good || good && len(h.done.Message.ToolCalls()) != n {
				t.Errorf("%d calls: %v", n, h.err)
			}
		}
	})
}

func TestTransientErrorsBeforeTheFirstChunkAreRetried(t *testing.T) {
	for name, c := range map[string]struct {
		script llmtest.Script
		pause  time.Duration
	}{
		"429 with retry-after":        {llmtest.Script{Status: 429, RetryAfter: "7", ErrorType: "rate_limit_error"}, 7 * time.Second},
		"429 with a huge retry-after": {llmtest.Script{Status: 429, RetryAfter: "999999999999"}, time.Minute},
		"500":                         {llmtest.Script{Status: 500, ErrorMessage: "oops"}, 375 * time.Millisecond},
		"502":                         {llmtest.Script{Status: 502}, 375 * time.Millisecond},
		"503":                         {llmtest.Script{Status: 503}, 375 * time.Millisecond},
		"504":                         {llmtest.Script{Status: 504}, 375 * time.Millisecond},
		"529":                         {llmtest.Script{Status: 529, ErrorType: "overloaded_error"}, 375 * time.Millisecond},
		"broken connection":           {llmtest.Script{Reset: true}, 375 * time.Millisecond},
		"cut before any text":         {llmtest.Script{Text: []string{"x"}, CutAfter: 20}, 375 * time.Millisecond},
		"overload as the first event": {llmtest.Script{ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}, 375 * time.Millisecond},
		"ended before any event":      {llmtest.Script{NoEnd: true}, 375 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				r := start(t, b, 0, 0, c.script, c.script, llmtest.Say("fine now"))
				h := collect(t.Context(), r.model, prompt)
				if h.err != nil || h.text != "fine now" || r.server.Count() != 3 {
					t.Fatalf("heard %q, error %v, after %d requests", h.text, h.err, r.server.Count())
				}
				if got := (*r.pauses)[0]; got != c.pause {
					t.Errorf("paused %v, want %v", got, c.pause)
				}
				if second := (*r.pauses)[1]; c.pause < time.Second && second != 2*c.pause {
					t.Errorf("the second pause is %v, want twice the first", second)
				}
				// Control: without retries, the same error is reported.
				r = start(t, b, -1, 0, c.script)
				if h := collect(t.Context(), r.model, prompt); h.err == nil || !fault.KindOf(h.err).Retryable() {
					t.Errorf("without retries the error is %v", h.err)
				}
			})
		})
	}
}

func TestPermanentErrorsAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		script llmtest.Script
		kind   fault.Kind
		code   string
		says   string
	}{
		"bad key":                {llmtest.Script{Status: 401, ErrorType: "authentication_error", ErrorMessage: "bad key " + key}, fault.Unauthenticated, "", setting},
		"bad key, OpenAI":        {llmtest.Script{Status: 401, ErrorType: "invalid_request_error", ErrorCode: "invalid_api_key", ErrorMessage: "Incorrect API key provided: " + key}, fault.Unauthenticated, "", setting},
		"no key, OpenAI":         {llmtest.Script{Status: 401, ErrorType: "invalid_request_error", ErrorMessage: "You didn't provide an API key."}, fault.Unauthenticated, "", setting},
		"not allowed":            {llmtest.Script{Status: 403, ErrorMessage: "no " + key}, fault.Denied, "", "the model m"},
		"unknown model":          {llmtest.Script{Status: 404, ErrorMessage: "no such model"}, fault.NotFound, "", "the model m"},
		"unknown model, OpenAI":  {llmtest.Script{Status: 404, ErrorType: "invalid_request_error", ErrorCode: "model_not_found", ErrorMessage: "The model does not exist."}, fault.NotFound, "", "the model m"},
		"bad request":            {llmtest.Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "messages.0 is odd"}, fault.Invalid, "", "messages.0 is odd"},
		"too long, Anthropic":    {llmtest.Script{Status: 400, ErrorMessage: "prompt is too long: 213462 tokens > 200000 maximum"}, fault.Invalid, "context_length", "too long"},
		"too long, OpenAI":       {llmtest.Script{Status: 400, ErrorCode: "context_length_exceeded", ErrorMessage: "This model's maximum context length is 8192 tokens."}, fault.Invalid, "context_length", "too long"},
		"too large":              {llmtest.Script{Status: 413}, fault.Invalid, "context_length", "too long"},
		"no credit":              {llmtest.Script{Status: 402}, fault.Denied, "insufficient_quota", "no credit"},
		"a cap of the account":   {llmtest.Script{Status: 429, ErrorType: "rate_limit_error", ErrorCode: "enforced_spend_limit_reached"}, fault.Denied, "insufficient_quota", "spending or usage limit"},
		"a limit of spending":    {llmtest.Script{Status: 429, ErrorType: "requests", ErrorCode: "project_spend_limit_exceeded"}, fault.Denied, "insufficient_quota", "spending or usage limit"},
		"a limit that was set":   {llmtest.Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "You have reached your specified API usage limits."}, fault.Denied, "insufficient_quota", "specified API usage limits"},
		"a redirect":             {llmtest.Script{Status: 302}, fault.Invalid, "", "redirect"},
		"malformed JSON":         {llmtest.Script{Malformed: `{"a":`}, fault.Unavailable, "bad_answer", "protocol"},
		"JSON of another shape":  {llmtest.Script{Malformed: `[1,2]`}, fault.Unavailable, "bad_answer", "protocol"},
		"malformed after a word": {llmtest.Script{Text: []string{"a"}, Malformed: `{"a":`}, fault.Unavailable, "bad_answer", "protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				r := start(t, b, 0, 0, c.script, llmtest.Say("healed"))
				h := collect(t.Context(), r.model, prompt)
				var f *fault.Error
				if !errors.As(h.err, &f) {
					t.Fatalf("error is %v", h.err)
				}
				if f.Kind != c.kind || f.Code != c.code || !strings.Contains(f.Message, c.says) {
					t.Errorf("kind %q, code %q, message %q", f.Kind, f.Code, f.Message)
				}
				if r.server.Count() != 1 {
					t.Errorf("it took %d requests", r.server.Count())
				}
				if strings.Contains(f.Error(), key) {
					t.Errorf("the error holds the key: %v", f)
				}
			})
		})
	}
}

func TestNoRetryAfterTheFirstChunk(t *testing.T) {
	words := llmtest.Words("one two three four five six seven eight nine ten")
	for name, c := range map[string]struct {
		script llmtest.Script
		kind   fault.Kind
		code   string
	}{
		"cut in the middle":     {llmtest.Script{Text: words, CutAfter: 1100}, fault.Unavailable, "stream_cut"},
		"end without an ending": {llmtest.Script{Text: words, NoEnd: true}, fault.Unavailable, "stream_cut"},
		"overload":              {llmtest.Script{Text: words, ErrorType: "overloaded_error", ErrorMessage: "Overloaded"}, fault.Unavailable, "overloaded"},
		"rate limit":            {llmtest.Script{Text: words, ErrorType: "rate_limit_error"}, fault.RateLimited, ""},
	} {
		t.Run(name, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				r := start(t, b, 0, 0, c.script, llmtest.Say("again"))
				h := collect(t.Context(), r.model, prompt)
				var f *fault.Error
				if !errors.As(h.err, &f) || f.Kind != c.kind || f.Code != c.code {
					t.Fatalf("error is %#v", h.err)
				}
				if !strings.HasPrefix(h.text, "one ") || h.done != nil || r.server.Count() != 1 {
					t.Errorf("heard %q, done %v, %d requests", h.text, h.done, r.server.Count())
				}
			})
		})
	}
}

func TestSilentStreamTimesOut(t *testing.T) {
	effort.SkipSlow(t)
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		r := start(t, b, -1, time.Second, llmtest.Script{Text: []string{"a"}, Hang: true})
		if h := collect(t.Context(), r.model, prompt); fault.KindOf(h.err) != fault.Timeout || h.text != "a" {
			t.Errorf("heard %q, error %v", h.text, h.err)
		}
	})
}

func TestContextCancelsCall(t *testing.T) {
	stop := errors.New("stop button")
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		r := start(t, b, 0, 0, llmtest.Script{Text: []string{"a"}, Hang: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var last error
		for c, err := range r.model.Stream(ctx, prompt) {
			if last = err; err == nil && c.Kind == llm.ChunkText {
				cancel(stop)
			}
		}
		if fault.KindOf(last) != fault.Cancelled || !errors.Is(last, context.Canceled) || !errors.Is(last, stop) {
			t.Errorf("error is %v", last)
		}
	})
}

func TestCallerMayStopReading(t *testing.T) {
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		r := start(t, b, 0, 0, llmtest.Say("many words to say here"))
		n := 0
		for range r.model.Stream(t.Context(), prompt) {
			if n++; n == 2 {
				break
			}
		}
	})
}

// A new connection costs a TLS handshake.
func TestConnectionIsReused(t *testing.T) {
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		r := start(t, b, 0, 0, llmtest.Say("One."), llmtest.Say("Two."))
		var reused []bool
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
		})
		for range 2 {
			if h := collect(ctx, r.model, prompt); h.err != nil || h.done == nil {
				t.Fatalf("the stream ended with %v", h.err)
			}
		}
		if !slices.Equal(reused, []bool{false, true}) {
			t.Errorf("calls that reused a connection: %v, want the second only", reused)
		}
	})
}

// Some servers keep the connection open after the last event.
func TestAnswerCompletesWhileStreamStaysOpen(t *testing.T) {
	last := map[string]string{
		"anthropic": `{"type":"message_stop"}`,
		"openai":    "[DONE]",
		"responses": `{"type":"response.completed","response":{"status":"completed","output":[]}}`,
	}
	forEachAdapter(t, func(t *testing.T, name string, b build) {
		open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, data := range []string{firstEvents[name], last[name]} {
				fmt.Fprintf(w, "data: %s\n\n", data)
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		t.Cleanup(open.Close)
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		h := collect(t.Context(), b(open.URL, client, llm.Retry{}, time.Hour), prompt)
		if h.err != nil || h.done == nil {
			t.Errorf("the stream ended with %v", h.err)
		}
	})
}

// firstEvents holds a short answer without its last event.
var firstEvents = map[string]string{
	"anthropic": `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`,
	"openai":    `{"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}`,
	"responses": `{"type":"response.output_text.delta","output_index":0,"delta":"Yes."}`,
}

func TestStopReasons(t *testing.T) {
	for _, c := range []struct {
		adapter, wire string
		want          llm.StopReason
	}{
		{"anthropic", "end_turn", llm.StopEnd},
		{"anthropic", "stop_sequence", llm.StopEnd},
		{"anthropic", "max_tokens", llm.StopLength},
		{"anthropic", "refusal", llm.StopRefusal},
		{"anthropic", "pause_turn", llm.StopOther},
		{"responses", "", llm.StopEnd},
		{"responses", "max_output_tokens", llm.StopLength},
		{"responses", "content_filter", llm.StopRefusal},
		{"responses", "something_new", llm.StopOther},
		{"openai", "stop", llm.StopEnd},
		{"openai", "length", llm.StopLength},
		{"openai", "content_filter", llm.StopRefusal},
		{"openai", "something_new", llm.StopOther},
	} {
		t.Run(c.adapter+" "+c.wire, func(t *testing.T) {
			r := start(t, adapters[c.adapter], 0, 0, llmtest.Script{Text: []string{"x"}, Stop: c.wire})
			if h := collect(t.Context(), r.model, prompt); h.err != nil || h.done.Stop != c.want {
				t.Errorf("stop %+v, error %v", h.done, h.err)
			}
		})
	}
}

func TestInvalidToolInputIsPreserved(t *testing.T) {
	forEachAdapter(t, func(t *testing.T, _ string, b build) {
		for _, input := range []string{`{"a":`, `"text"`, `null`, `[1]`} {
			r := start(t, b, 0, 0, llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: input}}})
			h := collect(t.Context(), r.model, prompt)
			if h.err != nil {
				t.Fatal(h.err)
			}
			p := h.done.Message.ToolCalls()[0]
			var said string
			if err := json.Unmarshal(llm.ProviderData(p.ProviderOptions, "lilac")["invalidInput"], &said); err != nil || said != input || string(p.Input) != "{}" {
				t.Errorf("input %s became %s with %s", input, p.Input, p.ProviderOptions)
			}
		}
		r := start(t, b, 0, 0, llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash"}}})
		p := collect(t.Context(), r.model, prompt).done.Message.ToolCalls()[0]
		if string(p.Input) != "{}" || strings.Contains(string(p.ProviderOptions), "invalidInput") {
			t.Errorf("an empty input became %s with %s", p.Input, p.ProviderOptions)
		}
	})
}

func TestMissingKeyNamesTheSetting(t *testing.T) {
	for _, m := range []llm.Model{
		anthropic.New(llm.Options{Model: "m", KeySetting: setting}),
		openai.New(llm.Options{Model: "m", KeySetting: setting}),
	} {
		if h := collect(t.Context(), m, prompt); fault.KindOf(h.err) != fault.Unauthenticated || !strings.Contains(h.err.Error(), setting) {
			t.Errorf("error is %v", h.err)
		}
	}
	// A self-hosted server may need no key, and its base URL may end in /v1.
	s := llmtest.New(t, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, base := range []string{s.URL, s.URL + "/", s.URL + "/v1", s.URL + "/v1/"} {
		for _, m := range []llm.Model{
			openai.New(llm.Options{BaseURL: base, Model: "m", HTTPClient: client}),
			anthropic.New(llm.Options{BaseURL: base, Model: "m", HTTPClient: client}),
		} {
			if h := collect(t.Context(), m, prompt); h.err != nil || h.text != "Hello." {
				t.Errorf("%s: heard %q, error %v", base, h.text, h.err)
			}
		}
	}
	for _, r := range s.Requests() {
		if r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" {
			t.Errorf("an empty key was sent: %v", r.Header)
		}
	}
}
