package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
)

// response is a transport that answers every request with a body.
type response struct{ contentType, body string }

func (r response) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {r.contentType}}, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

var dialectTools = []llm.ToolSpec{{Name: "get_weather"}, {Name: "x"}, {Name: "y"}}

func answer(t *testing.T, transport http.RoundTripper, messages ...chat.Message) (*llm.Chunk, *fault.Error) {
	t.Helper()
	m := openai.New(llm.Options{BaseURL: "http://model.test", Model: "m", Images: true, HTTPClient: &http.Client{Transport: transport}, Retry: llm.Retry{Max: -1}})
	if len(messages) == 0 {
		messages = []chat.Message{chat.Text(chat.User, "x")}
	}
	for chunk, err := range m.Stream(t.Context(), llm.Request{Messages: messages, Tools: dialectTools}) {
		var f *fault.Error
		if errors.As(err, &f) {
			return nil, f
		}
		if chunk.Kind == llm.ChunkDone {
			return &chunk, nil
		}
	}
	t.Fatal("the stream has no end")
	return nil, nil
}

func callDelta(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[%s]}}]}\n\n", p)
	}
	return b.String() + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n"
}

func TestToolCallsAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"index 0, empty ids": {callDelta(
			`{"index":0,"id":"","function":{"name":"x","arguments":"{\"n\":1}"}}`,
			`{"index":0,"id":"","function":{"name":"y","arguments":"{\"n\":2}"}}`,
		), []string{`x {"n":1}`, `y {"n":2}`}},
		"index 0, no ids, same tool": {callDelta(
			`{"index":0,"function":{"name":"x","arguments":"{\"n\":1}"}}`,
			`{"index":0,"function":{"name":"x","arguments":"{\"n\":2}"}}`,
		), []string{`x {"n":1}`, `x {"n":2}`}},
		"repeated ids": {callDelta(
			`{"index":0,"id":"call","function":{"name":"x","arguments":"{\"n\""}}`,
			`{"index":0,"function":{"arguments":":1}"}}`,
			`{"index":1,"id":"call","function":{"name":"x","arguments":"{\"n\""}}`,
			`{"index":1,"function":{"arguments":":2}"}}`,
		), []string{`x {"n":1}`, `x {"n":2}`}},
		"arguments in another index than the id": {callDelta(
			`{"index":0,"id":"a","function":{"name":"x","arguments":""}}`,
			`{"index":1,"function":{"arguments":"{\"n\":1}"}}`,
		), []string{`x {"n":1}`}},
		"arguments by id in a wrong index": {callDelta(
			`{"index":0,"id":"a","function":{"name":"x"}}`,
			`{"index":1,"id":"b","function":{"name":"y"}}`,
			`{"index":0,"id":"b","function":{"arguments":"{\"n\":2}"}}`,
			`{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}`,
		), []string{`x {"n":1}`, `y {"n":2}`}},
		"strings and numbers in the wrong place": {callDelta(
			`{"index":"0","id":7,"function":{"name":"x","arguments":{"n":1}}}`,
			`{"index":"1.0","id":8,"type":null,"function":{"name":"y","arguments":"{\"n\":2}"}}`,
		), []string{`x {"n":1}`, `y {"n":2}`}},
		"the name in pieces": {callDelta(
			`{"index":0,"id":"a","function":{"name":"get_"}}`,
			`{"index":0,"function":{"name":"weather"}}`,
			`{"index":0,"function":{"arguments":"{\"n\":1}"}}`,
		), []string{`get_weather {"n":1}`}},
		"the name so far in every piece": {callDelta(
			`{"index":0,"id":"a","function":{"name":"get_"}}`,
			`{"index":0,"id":"a","function":{"name":"get_weather","arguments":"{\"n\""}}`,
			`{"index":0,"id":"a","function":{"name":"get_weather","arguments":":1}"}}`,
		), []string{`get_weather {"n":1}`}},
		"two calls without arguments": {callDelta(
			`{"index":0,"id":"","function":{"name":"x","arguments":""}}`,
			`{"index":0,"id":"","function":{"name":"y","arguments":""}}`,
		), []string{`x {}`, `y {}`}},
		"the call repeated at the end": {callDelta(
			`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}`,
			`{"index":0,"id":"a","function":{"arguments":":1}"}}`,
			`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\":1}"}}`,
		), []string{`x {"n":1}`}},
		"an id that changes with every piece": {callDelta(
			`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"n\""}}`,
			`{"index":0,"id":"b","function":{"arguments":":1}"}}`,
		), []string{`x {"n":1}`}},
		"an empty object before the arguments": {callDelta(
			`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`,
			`{"index":0,"id":"a","function":{"arguments":"{\"n\":1}"}}`,
		), []string{`x {"n":1}`}},
		"arguments encoded twice": {callDelta(`{"index":0,"id":"a","function":{"name":"x","arguments":"\"{\\\"n\\\":1}\""}}`), []string{`x {"n":1}`}},
		"an object, not a list":   {strings.ReplaceAll(strings.ReplaceAll(callDelta(`{"id":"a","name":"x","arguments":"{}"}`), "[{\"id\"", "{\"id\""), "\"{}\"}]", "\"{}\"}"), []string{`x {}`}},
		"function_call":           {"data: {\"choices\":[{\"delta\":{\"function_call\":{\"name\":\"x\",\"arguments\":\"{\\\"n\\\"\"}}}]}\n\ndata: {\"choices\":[{\"delta\":{\"function_call\":{\"arguments\":\":1}\"}},\"finish_reason\":\"function_call\"}]}\n\n", []string{`x {"n":1}`}},
	} {
		t.Run(name, func(t *testing.T) {
			done, failed := answer(t, response{"text/event-stream", c.stream})
			if failed != nil {
				t.Fatal(failed)
			}
			var got []string
			ids := map[string]bool{}
			for _, p := range done.Message.ToolCalls() {
				got = append(got, p.ToolName+" "+string(p.Input))
				ids[p.ToolCallID] = true
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(ids) != len(got) || done.Stop != llm.StopTools {
				t.Errorf("stop %q, ids %v (-want +got):\n%s", done.Stop, ids, diff)
			}
		})
	}
}

func TestFramingIsDetected(t *testing.T) {
	const first, last = `{"choices":[{"index":0,"delta":{"content":"Hi "}}]}`, `{"choices":[{"index":0,"delta":{"content":"there"},"finish_reason":"stop"}]}`
	const whole = `{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi there"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	var pretty strings.Builder
	_ = json.NewEncoder(&pretty).Encode(json.RawMessage(whole))
	for name, r := range map[string]response{
		"usual":                     {"text/event-stream", "data: " + first + "\n\ndata: " + last + "\n\ndata: [DONE]\n\n"},
		"one newline":               {"text/event-stream", "data: " + first + "\ndata: " + last + "\ndata: [DONE]\n"},
		"no newline at the end":     {"text/event-stream", "data: " + first + "\n\ndata: " + last},
		"CRLF":                      {"text/event-stream", "data: " + first + "\r\n\r\ndata: " + last + "\r\n\r\n"},
		"wrong content type":        {"application/json", "data: " + first + "\n\ndata: " + last + "\n\n"},
		"no content type":           {"", "data:" + first + "\n\ndata:" + last + "\n\n"},
		"comments":                  {"text/event-stream", ": OPENROUTER PROCESSING\n\ndata: " + first + "\n\n: x\n\ndata: " + last + "\n\n"},
		"JSON lines":                {"application/x-ndjson", first + "\n" + last + "\n"},
		"a whole completion":        {"application/json", whole},
		"a whole, pretty-printed":   {"application/json", strings.NewReplacer(`,"`, ",\n  \"", "{", "{\n").Replace(whole)},
		"a whole as an event":       {"text/event-stream", "data: " + whole + "\n\ndata: [DONE]\n\n"},
		"a whole after the deltas":  {"text/event-stream", "data: " + first + "\n\ndata: " + last + "\n\ndata: " + whole + "\n\n"},
		"message instead of delta":  {"text/event-stream", strings.ReplaceAll("data: "+first+"\n\ndata: "+last+"\n\n", `"delta"`, `"message"`)},
		"types":                     {"text/event-stream", "data: {\"choices\":{\"index\":\"0\",\"delta\":{\"content\":[{\"type\":\"text\",\"text\":\"Hi \"}]}},\"model\":null}\n\ndata: " + last + "\n\n"},
		"framed twice":              {"text/event-stream", "data: data: " + first + "\n\ndata: data: " + last + "\n\ndata: data: [DONE]\n\n"},
		"a list of chunks":          {"application/json", "[" + first + ",\n" + last + "]"},
		"signs of life as data":     {"text/event-stream", "data: ping\n\ndata: null\n\ndata: {}\n\ndata: " + first + "\n\ndata: \"\"\n\ndata: " + last + "\n\ndata: \"[DONE]\"\n\n"},
		"no errors in a list":       {"text/event-stream", strings.ReplaceAll("data: "+first+"\n\ndata: "+last+"\n\n", `{"choices"`, `{"success":true,"errors":[],"error":{"code":null,"message":""},"base_resp":{"status_code":0,"status_msg":""},"choices"`)},
		"text of old completions":   {"text/event-stream", `data: {"choices":[{"index":0,"text":"Hi "}]}` + "\n\n" + `data: {"choices":[{"index":0,"text":"there","finish_reason":"stop"}]}` + "\n\n"},
		"the text again at the end": {"text/event-stream", "data: " + first + "\n\n" + `data: {"choices":[{"delta":{"content":"there"}}]}` + "\n\n" + `data: {"choices":[{"message":{"content":"Hi there"},"finish_reason":"stop"}]}` + "\n\n"},
		"Ollama's own lines":        {"application/x-ndjson", `{"model":"m","message":{"role":"assistant","content":"Hi "},"done":false}` + "\n" + `{"model":"m","message":{"role":"assistant","content":"there"},"done":true,"done_reason":"stop"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			done, failed := answer(t, r)
			if failed != nil {
				t.Fatal(failed)
			}
			if got := done.Message.Text(); got != "Hi there" || done.Stop != llm.StopEnd {
				t.Errorf("text %q, stop %q", got, done.Stop)
			}
		})
	}
}

func TestErrorsInsideSuccessfulResponsesAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		response
		kind fault.Kind
		code string
		says string
	}{
		"an error event":       {response{"text/event-stream", "data: {\"error\":{\"message\":\"model crashed\",\"code\":500}}\n\n"}, fault.Unavailable, "", "model crashed"},
		"a flat error":         {response{"text/event-stream", "data: {\"object\":\"error\",\"message\":\"bad template\",\"type\":\"BadRequestError\",\"code\":400}\n\n"}, fault.Invalid, "", "bad template"},
		"a bare error":         {response{"application/json", `{"error":{"message":"quota is gone","type":"insufficient_quota"}}`}, fault.Denied, "insufficient_quota", "quota is gone"},
		"a bare error, HTML":   {response{"text/html", `{"error":"engine stopped"}`}, fault.Unavailable, "", "engine stopped"},
		"too long":             {response{"text/event-stream", "data: {\"error\":{\"message\":\"This model's maximum prompt length is 131072 but the request contains 537812 tokens.\"}}\n\n"}, fault.Invalid, llm.CodeContextLength, "131072"},
		"finish_reason error":  {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\",\"native_finish_reason\":\"upstream_failed\"}]}\n\ndata: [DONE]\n\n"}, fault.Unavailable, "", "upstream_failed"},
		"an error in a choice": {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"error\",\"error\":{\"code\":502,\"message\":\"provider disconnected\"}}]}\n\n"}, fault.Unavailable, "", "provider disconnected"},
		"an error at the end":  {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"error\":{\"message\":\"cut by the server\",\"code\":503}}\n\n"}, fault.Unavailable, "", "cut by the server"},
		"a sentence after it":  {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"error\"}]}\n\ndata: {\"error\":{\"message\":\"the GPU is gone\"}}\n\n"}, fault.Unavailable, "", "the GPU is gone"},
		"no resources":         {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"half\"},\"finish_reason\":\"insufficient_system_resource\"}]}\n\ndata: [DONE]\n\n"}, fault.Unavailable, "", "insufficient_system_resource"},
		"a malformed call":     {response{"text/event-stream", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"MALFORMED_FUNCTION_CALL\"}]}\n\ndata: [DONE]\n\n"}, fault.Unavailable, "", "malformed_function_call"},
		"MiniMax":              {response{"application/json", `{"choices":null,"base_resp":{"status_code":1004,"status_msg":"login fail"}}`}, fault.Unavailable, "", "login fail"},
		"another pair":         {response{"application/json", `{"error_code":17,"error_msg":"no access for this app"}`}, fault.Unavailable, "", "no access for this app"},
		"a detail":             {response{"text/event-stream", "event: error\ndata: {\"detail\":\"worker died\"}\n\n"}, fault.Unavailable, "", "worker died"},
		"a line of text":       {response{"text/plain", "no healthy upstream"}, fault.Unavailable, "", "no healthy upstream"},
		"too long as text":     {response{"text/plain", "Error: the prompt is too long for this model"}, fault.Invalid, llm.CodeContextLength, "too long"},
		"a sentence":           {response{"text/event-stream", "data: upstream connect error\n\n"}, fault.Unavailable, "", "upstream connect error"},
		"a web page":           {response{"text/html", "<!doctype html><title>Login</title>"}, fault.Unavailable, llm.CodeBadAnswer, "a web page"},
	} {
		t.Run(name, func(t *testing.T) {
			done, failed := answer(t, c.response)
			if failed == nil {
				t.Fatalf("the answer is %+v", done.Message)
			}
			if failed.Kind != c.kind || failed.Code != c.code || !strings.Contains(failed.Message, c.says) {
				t.Errorf("kind %q, code %q, message %q", failed.Kind, failed.Code, failed.Message)
			}
		})
	}
}

func TestUsageOfDialects(t *testing.T) {
	for name, c := range map[string]struct {
		usage string
		want  chat.Usage
	}{
		"thinking only in the total": {`{"prompt_tokens":100,"completion_tokens":10,"total_tokens":310}`, chat.Usage{InputTokens: 100, OutputTokens: 210}},
		"usual":                      {`{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}`, chat.Usage{InputTokens: 100, OutputTokens: 10}},
		"a total alone":              {`{"total_tokens":110}`, chat.Usage{}},
		"OpenRouter's cost":          {`{"prompt_tokens":100,"completion_tokens":10,"cost":0.00123}`, chat.Usage{InputTokens: 100, OutputTokens: 10, CostMicros: 1230}},
		"own key":                    {`{"prompt_tokens":1,"completion_tokens":1,"cost":"0.001","is_byok":true,"cost_details":{"upstream_inference_cost":0.02}}`, chat.Usage{InputTokens: 1, OutputTokens: 1, CostMicros: 21000}},
		"thinking beside the output": {`{"prompt_tokens":100,"completion_tokens":10,"completion_tokens_details":{"reasoning_tokens":200}}`, chat.Usage{InputTokens: 100, OutputTokens: 210}},
		"thinking in the output":     {`{"prompt_tokens":100,"completion_tokens":210,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":200}}`, chat.Usage{InputTokens: 100, OutputTokens: 210}},
		"xAI's cost":                 {`{"prompt_tokens":100,"completion_tokens":10,"cost_in_usd_ticks":37756000}`, chat.Usage{InputTokens: 100, OutputTokens: 10, CostMicros: 3776}},
		"Perplexity's cost":          {`{"prompt_tokens":1,"completion_tokens":1,"cost":{"input_tokens_cost":0.001,"total_cost":0.006}}`, chat.Usage{InputTokens: 1, OutputTokens: 1, CostMicros: 6000}},
		"DeepInfra's cost":           {`{"prompt_tokens":1,"completion_tokens":1,"estimated_cost":0.00002}`, chat.Usage{InputTokens: 1, OutputTokens: 1, CostMicros: 20}},
		"names of other protocols":   {`{"input_tokens":100,"output_tokens":10,"cache_read_input_tokens":60,"cache_creation_input_tokens":20}`, chat.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 60, CacheWriteTokens: 20}},
		"Mistral's cache":            {`{"prompt_tokens":100,"completion_tokens":10,"num_cached_tokens":64}`, chat.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 64}},
		"reported twice":             {`{"prompt_tokens":100,"completion_tokens":10},"x_groq":{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`, chat.Usage{InputTokens: 100, OutputTokens: 10}},
		"DeepSeek's cache":           {`{"prompt_tokens":100,"completion_tokens":10,"prompt_cache_hit_tokens":64}`, chat.Usage{InputTokens: 100, OutputTokens: 10, CacheReadTokens: 64}},
	} {
		done, failed := answer(t, response{"", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":" + c.usage + "}\n\n"})
		if failed != nil {
			t.Fatal(failed)
		}
		if diff := cmp.Diff(c.want, done.Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUsageInOtherPlaces(t *testing.T) {
	for name, stream := range map[string]string{
		"in the choice (Moonshot)": `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":10}}]}`,
		"Ollama's own":             `{"message":{"role":"assistant","content":"a"},"done":true,"done_reason":"stop","prompt_eval_count":100,"eval_count":10}`,
	} {
		done, failed := answer(t, response{"", "data: " + stream + "\n\n"})
		if failed != nil || done.Usage != (chat.Usage{InputTokens: 100, OutputTokens: 10}) {
			t.Errorf("%s: %+v, %v", name, done, failed)
		}
	}
}

// Thinking is never shown as text, in whatever place it comes.
func TestThinkingInOtherPlaces(t *testing.T) {
	for name, delta := range map[string]string{
		"Mistral":            `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"a"}]}`,
		"a string":           `{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}`,
		"Databricks":         `{"content":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"text","text":"a"}]}`,
		"a typed text":       `{"content":[{"type":"reasoning","text":"hm"},{"type":"text","text":"a"}]}`,
		"an object":          `{"reasoning":{"content":"hm"},"content":"a"}`,
		"under two names":    `{"reasoning":"hm","reasoning_content":"hm","content":"a"}`,
		"Copilot":            `{"reasoning_text":"hm","content":"a"}`,
		"only in details":    `{"reasoning_details":[{"type":"reasoning.text","text":"hm"}],"content":"a"}`,
		"a list of one text": `{"reasoning_content":"hm","content":{"type":"text","text":"a"}}`,
	} {
		done, failed := answer(t, response{"", "data: {\"choices\":[{\"delta\":" + delta + ",\"finish_reason\":\"stop\"}]}\n\n"})
		if failed != nil {
			t.Errorf("%s: %v", name, failed)
			continue
		}
		thinking := ""
		for _, p := range done.Message.Parts {
			if p.Type == chat.TypeReasoning {
				thinking += p.Text
			}
		}
		if done.Message.Text() != "a" || thinking != "hm" {
			t.Errorf("%s: text %q, thinking %q", name, done.Message.Text(), thinking)
		}
	}
}

func TestHalvesOfCharactersInTwoChunks(t *testing.T) {
	for name, halves := range map[string][2]string{
		"bytes":      {"\xf0\x9f", "\x98\x80"},
		"surrogates": {`\ud83d`, `\ude00`},
	} {
		stream := fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a%s\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%sb\"},\"finish_reason\":\"stop\"}]}\n\n", halves[0], halves[1])
		done, failed := answer(t, response{"", stream})
		if failed != nil || done.Message.Text() != "a😀b" {
			t.Errorf("%s: %+v, %v", name, done, failed)
		}
	}
}
