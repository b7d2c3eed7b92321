package llmtest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/model/responses"
	"lilac/internal/testkit/llmtest"
)

// Each body of a conversation with tools, thinking, and an image follows OpenAI's
// description of its API.
func TestBodiesFollowOpenAIsDescription(t *testing.T) {
	temperature, topP := 0.5, 0.9
	image := chat.Message{Role: chat.User, Parts: []chat.Part{chat.TextPart("look"), {Type: chat.TypeImage, Data: json.RawMessage(`"iVBORw0KGgo="`)}}}
	tools := []llm.ToolSpec{{Name: "read", Description: "Reads.", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}, {Name: "bare"}}
	for protocol, build := range map[llmtest.Protocol]func(llm.Options) llm.Model{
		llmtest.OpenAI:    func(o llm.Options) llm.Model { return openai.New(o) },
		llmtest.Responses: func(o llm.Options) llm.Model { return responses.New(o) },
	} {
		t.Run(string(protocol), func(t *testing.T) {
			var thinking []string // chat completions of OpenAI show none, and accept none back
			if protocol == llmtest.Responses {
				thinking = []string{"Hm."}
			}
			server := llmtest.New(t, llmtest.Sequence(
				llmtest.Script{Reasoning: thinking, Text: []string{"I read. "}, Calls: []llmtest.Call{{ID: "c1", Name: "read", Input: `{"path":"a"}`}, {ID: "c2", Name: "bare", Input: `{}`}}},
				llmtest.Script{Reasoning: thinking, Text: []string{"It says a."}},
				llmtest.Say("A picture."), llmtest.Say("Bye."),
			))
			m := build(llm.Options{
				BaseURL: server.URL + "/v1", APIKey: "k", Model: "gpt-5", Images: true, PDFs: true, MaxOutputTokens: 1000, Retry: llm.Retry{Max: -1},
				Tuning: llm.Tuning{Effort: "high", Temperature: &temperature, TopP: &topP},
			})
			conversation := []chat.Message{chat.Text(chat.User, "hello")}
			turn := func(next ...chat.Message) {
				t.Helper()
				h := collect(t.Context(), m, llm.Request{System: "Be brief.", Messages: conversation, Tools: tools, Session: "s"})
				if h.err != nil {
					t.Fatal(h.err)
				}
				conversation = append(append(conversation, h.done.Message), next...)
			}
			turn(chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c1", "read", "a", false), chat.ToolResult("c2", "bare", "It failed.", true)}})
			turn(image)
			turn(chat.Text(chat.User, "and"), chat.Text(chat.User, "bye"))
			turn()
			for _, r := range server.Requests() {
				if err := llmtest.ValidateBody(protocol, r.Body); err != nil {
					t.Errorf("request %d: %v", r.N, err)
				}
				// Without this, the check could accept everything.
				for right, wrong := range map[string]string{`"stream":true`: `"stream":"yes"`, `"model"`: `"provider_metadata":1,"model"`, `"role":"user"`: `"token_id":1,"role":"user"`} {
					body := strings.Replace(string(r.Body), right, wrong, 1)
					if body == string(r.Body) || llmtest.ValidateBody(protocol, []byte(body)) == nil {
						t.Errorf("request %d is accepted with %s", r.N, wrong)
					}
				}
			}
			if server.Count() != 4 {
				t.Errorf("%d requests", server.Count())
			}
		})
	}
}

// Control: the fake of each protocol refuses what a provider would refuse, which fails a test.
func TestServerRefusesInvalidBodies(t *testing.T) {
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	claude := func(messages string) string { return `{"model":"m","max_tokens":10,"messages":[` + messages + `]}` }
	input := func(items string) string { return `{"model":"m","input":[` + items + `]}` }
	const hi = `{"role":"user","content":"hi"}`
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}]}`
	for name, c := range map[string]struct{ protocol, body, says string }{
		"chat":                           {"openai", chat(hi), ""},
		"chat, thinking of the fake":     {"openai", chat(hi + `,{"role":"assistant","content":"x","reasoning_content":"hm"}`), ""},
		"chat, a field of another host":  {"openai", chat(hi + `,{"role":"assistant","content":"x","token_id":1}`), "messages[1]"},
		"chat, a field of the body":      {"openai", `{"model":"m","messages":[` + hi + `],"channel":1}`, "channel"},
		"chat, a type":                   {"openai", `{"model":"m","messages":[` + hi + `],"temperature":"hot"}`, "temperature"},
		"chat, no messages":              {"openai", chat(""), "messages"},
		"chat, a result":                 {"openai", chat(hi + "," + call + `,{"role":"tool","tool_call_id":"a","content":"ok"}`), ""},
		"chat, no result":                {"openai", chat(hi + "," + call + "," + hi), "missing"},
		"chat, a result of nothing":      {"openai", chat(hi + `,{"role":"tool","tool_call_id":"b","content":"ok"}`), "follows no call"},
		"claude":                         {"anthropic", claude(hi), ""},
		"claude, a field of the body":    {"anthropic", `{"model":"m","max_tokens":10,"messages":[` + hi + `],"stop":1}`, "stop"},
		"claude, a field of a block":     {"anthropic", claude(`{"role":"user","content":[{"type":"text","text":"x","id":"1"}]}`), "messages.0.content.0.id"},
		"claude, a blank text":           {"anthropic", claude(`{"role":"user","content":[{"type":"text","text":" "}]}`), "non-whitespace"},
		"claude, a wrong end":            {"anthropic", claude(hi + `,{"role":"assistant","content":"x"}`), "last message"},
		"claude, no signature":           {"anthropic", claude(hi + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]},` + hi), "signature"},
		"claude, no result":              {"anthropic", claude(hi + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"x","input":{}}]},` + hi), "missing"},
		"responses":                      {"responses", input(hi), ""},
		"responses, a field of the body": {"responses", `{"model":"m","input":[` + hi + `],"messages":[]}`, "messages"},
		"responses, a field of an item":  {"responses", input(`{"role":"user","content":"hi","token_id":1}`), "input[0]"},
		"responses, no result":           {"responses", input(`{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}`), "missing"},
	} {
		err := llmtest.CheckBody(llmtest.Protocol(c.protocol), []byte(c.body))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The server itself answers with the refusal.
	allowed := llmtest.New(t, nil, func(o *llmtest.Options) { o.AllowInvalid = true })
	strict, err := llmtest.Start(llmtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = strict.Close() }()
	for s, want := range map[*llmtest.Server]int{allowed: http.StatusOK, strict: http.StatusBadRequest} {
		res, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(chat(hi+`,{"role":"assistant","content":"x","token_id":1}`)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want || len(s.Invalid()) != map[int]int{http.StatusOK: 0, http.StatusBadRequest: 1}[want] {
			t.Errorf("status %d, invalid are %v", res.StatusCode, s.Invalid())
		}
	}
}

func TestWrongAnswersAreFound(t *testing.T) {
	for schema, answer := range map[string]string{
		"Response":                     `{"id":"r"}`,
		"CreateChatCompletionResponse": `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":"0"}]}`,
		"ResponseStreamEvent":          `{"type":"response.output_text.delta","delta":1}`,
	} {
		if err := llmtest.ValidateAnswer(schema, []byte(answer)); err == nil {
			t.Errorf("%s accepts %s", schema, answer)
		}
	}
	if err := llmtest.ValidateAnswer("Model", []byte(`{"id":"m","object":"model","created":1,"owned_by":"x"}`)); err != nil {
		t.Errorf("a model: %v", err)
	}
}
