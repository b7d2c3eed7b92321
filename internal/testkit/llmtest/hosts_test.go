package llmtest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/model/openai"
	"lilac/internal/testkit/llmtest"
)

// hostServer is a transport that refuses what a host refuses, and answers with scripted
// deltas otherwise.
type hostServer struct {
	host     llmtest.Host
	refused  []string
	accepted []string
	deltas   []map[string]any
}

func (s *hostServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, answer := s.host.Refuse(body)
	if status != 0 {
		s.refused = append(s.refused, answer)
	} else {
		status = 200
		s.accepted = append(s.accepted, string(body))
		var b strings.Builder
		for _, d := range s.deltas {
			encoded, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": d}}})
			fmt.Fprintf(&b, "data: %s\n\n", encoded)
		}
		answer = b.String() + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// TestConversationWithEveryHost runs one conversation of ten turns against each dialect:
// text, a tool, two tools at once, thinking, an image, a stop, steers, a failure, an answer of
// another provider, and a compaction. A host may refuse each kind of thing once; nothing may be refused twice.
func TestConversationWithEveryHost(t *testing.T) {
	image := chat.Message{Role: chat.User, Parts: []chat.Part{chat.TextPart("look"), {Type: chat.TypeImage, Data: json.RawMessage(`"iVBORw0KGgo="`)}}}
	for _, host := range llmtest.Hosts {
		t.Run(host.Name, func(t *testing.T) {
			s := &hostServer{host: host}
			temperature := 0.5
			m := openai.New(llm.Options{
				BaseURL: "http://" + strings.ToLower(strings.NewReplacer(" ", "", ",", "").Replace(host.Name)) + ".test/v1", Model: "m", Images: true, MaxOutputTokens: 1000,
				HTTPClient: &http.Client{Transport: s}, Retry: llm.Retry{Max: -1}, Tuning: llm.Tuning{Temperature: &temperature},
			})
			conversation := []chat.Message{chat.Text(chat.User, "hello")}
			turn := func(deltas ...map[string]any) chat.Message {
				t.Helper()
				s.deltas = deltas
				h := collect(t.Context(), m, llm.Request{System: "Be brief.", Messages: conversation, Tools: []llm.ToolSpec{{Name: "read"}, {Name: "bash"}}, Session: "s"})
				if h.err != nil {
					t.Fatalf("the host refuses: %v\nall refusals: %s", h.err, strings.Join(s.refused, "\n"))
				}
				conversation = append(conversation, h.done.Message)
				return h.done.Message
			}
			add := func(messages ...chat.Message) { conversation = append(conversation, messages...) }
			thinking := host.ReasoningDelta("hm")
			calls := func(ids ...string) map[string]any {
				var list []any
				for i, id := range ids {
					list = append(list, map[string]any{"index": i, "id": id, "type": "function", "function": map[string]any{"name": "read", "arguments": "{}"}})
				}
				return map[string]any{"tool_calls": list, "channel": "commentary", "token_id": 7}
			}
			results := func(ids ...string) chat.Message {
				msg := chat.Message{Role: chat.Tool}
				for _, id := range ids {
					msg.Parts = append(msg.Parts, chat.ToolResult(id, "read", "ok", false))
				}
				return msg
			}
			turn(map[string]any{"content": "hi", "provider_metadata": map[string]any{"x": 1}})
			add(chat.Text(chat.User, "read"))
			turn(thinking, calls("call00001"))
			add(results("call00001"))
			turn(map[string]any{"content": "done"})
			add(chat.Text(chat.User, "read two"))
			turn(thinking, map[string]any{"content": "Reading."}, calls("call00002", "call00003"))
			add(results("call00002", "call00003"), chat.Text(chat.User, "a steer"), chat.Text(chat.User, "another steer"))
			turn(thinking, map[string]any{"content": "ok"})
			add(chat.Text(chat.User, "stop this"), chat.Text(chat.Assistant, "I was about"), chat.Text(chat.User, "go on"))
			turn(map[string]any{"content": "gone on"})
			// Another provider has answered in between.
			foreign := []string{"functions.read:0", "call_" + strings.Repeat("x", 60)}
			other := chat.Message{Role: chat.Assistant, ProviderOptions: json.RawMessage(`{"lilac":{"source":"other@other.test/other"},"openai":{"channel":"x"}}`)}
			for _, id := range foreign {
				other.Parts = append(other.Parts, chat.ToolCall(id, "read", json.RawMessage(`{}`)))
			}
			add(chat.Text(chat.User, "ask another"), other, results(foreign...))
			turn(map[string]any{"content": "the other has read"})
			add(image)
			turn(map[string]any{"content": "I see."})
			add(chat.Text(chat.User, "one that failed"), chat.Text(chat.User, "again"))
			turn(map[string]any{"content": "yes"})
			add(chat.Text(chat.System, "A note."), chat.Text(chat.User, "go"))
			if host.ReasoningDelta("") != nil && strings.Contains(string(mustJSON(host.ReasoningDelta(""))), "reasoning_content") {
				turn(map[string]any{"reasoning_content": ""}, calls("call00004")) // empty reasoning must come back
			} else {
				turn(calls("call00004"))
			}
			add(results("call00004"))
			turn(map[string]any{"content": "fine"})
			conversation = append([]chat.Message{chat.Text(chat.User, "Summary of it all.")}, chat.Text(chat.User, "on"))
			turn(map[string]any{"content": "on it"})

			if thinking != nil && !strings.Contains(strings.Join(s.accepted, ""), `"hm"`) {
				t.Error("no thinking is sent back")
			}
			for _, body := range s.accepted {
				if unknown := host.Unknown([]byte(body)); unknown != "" {
					t.Errorf("a body has a field that the host ignores: %s", unknown)
				}
			}
			kinds := map[string]bool{}
			for _, r := range s.refused {
				key := llmtest.RefusalKind(r)
				if kinds[key] {
					t.Errorf("refused twice: %s", r)
				}
				kinds[key] = true
			}
			t.Logf("%d requests accepted, %d refused", len(s.accepted), len(s.refused))
		})
	}
}

func mustJSON(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}
