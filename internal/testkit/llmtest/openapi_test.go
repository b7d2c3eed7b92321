package llmtest_test

import (
	"encoding/json"
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
				BaseURL: server.URL + "/v1", APIKey: "k", Model: "gpt-5", Images: true, MaxOutputTokens: 1000, Retry: llm.Retry{Max: -1},
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
