package llmtest_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/llmtest"
)

// The history keeps every message, so a provider that refuses one refuses every later
// request.

func sentBody(t *testing.T, b build, messages ...chat.Message) string {
	t.Helper()
	r := start(t, b, 0, 0, llmtest.Say("ok"))
	if h := collect(t.Context(), r.model, llm.Request{Messages: messages}); h.err != nil {
		t.Fatal(h.err)
	}
	return string(r.server.Requests()[0].Body)
}

func TestInvalidToolNamesAreSanitized(t *testing.T) {
	for name, want := range map[string]string{
		"multi_tool_use.parallel": `"multi_tool_use_parallel"`,
		"read-it_2":               `"read-it_2"`,
		"bäsh it\n":               `"b_sh_it_"`,
		strings.Repeat("x", 100):  `"` + strings.Repeat("x", 64) + `"`,
	} {
		forEachAdapter(t, func(t *testing.T, _ string, b build) {
			body := sentBody(t, b, chat.Text(chat.User, "hi"),
				chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("c", name, json.RawMessage(`{}`))}},
				chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", name, "There is no such tool.", true)}})
			if !strings.Contains(body, `"name":`+want) {
				t.Errorf("%q is not sent as %s:\n%s", name, want, body)
			}
		})
	}
}

func TestLoneSurrogatesAreReplaced(t *testing.T) {
	for said, want := range map[string]string{
		`{"a":"x\ud83d"}`:              `{"a":"x\ufffd"}`,
		`{"a":"\uDE00","b":1}`:         `{"a":"\ufffd","b":1}`,
		`{"\ud83d\ud83d\ude00":"\\u"}`: `{"\ufffd\ud83d\ude00":"\\u"}`,
		`{"a":"\ud83d\\ude00"}`:        `{"a":"\ufffd\\ude00"}`,
		`{"a":"\ud83d\u0041"}`:         `{"a":"\ufffd\u0041"}`,
		`{"a":"\\ud83d"}`:              `{"a":"\\ud83d"}`,
	} {
		forEachAdapter(t, func(t *testing.T, name string, b build) {
			body := sentBody(t, b, chat.Text(chat.User, "hi"),
				chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("c", "read", json.RawMessage(said))}},
				chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", "read", "ok", false)}})
			want := want
			if name != "anthropic" { // where the input is a string
				quoted, _ := json.Marshal(want)
				want = string(quoted)
			}
			if !strings.Contains(body, want) {
				t.Errorf("%s is not sent as %s:\n%s", said, want, body)
			}
		})
	}
}

func TestImageTypeIsDetectedFromBytes(t *testing.T) {
	jpeg, svg := "\xff\xd8\xff\xe0 a picture", `<svg xmlns="http://www.w3.org/2000/svg"/>`
	for what, c := range map[string]struct{ kind, data, want string }{
		"another kind than it says": {"image/png", jpeg, "image/jpeg"},
		"a kind that is no picture": {"image/heic", "\x00\x00\x00\x18ftypheic", "cannot see here: f (image/heic)"},
		"a picture that is text":    {"image/svg+xml", svg, "svg xmlns"},
		"an error page":             {"image/png", "<html>Not found</html>", "html"},
		"nothing of a picture":      {"image/png", "\x01\x02\x03", "cannot see here: f ("},
		"a bitmap":                  {"image/bmp", "BM\x00\x00", "cannot see here: f (image/bmp)"},
		"no document":               {"application/pdf", "\x01\x02", "cannot see here: f (application/octet-stream)"},
	} {
		t.Run(what, func(t *testing.T) {
			forEachAdapter(t, func(t *testing.T, _ string, b build) {
				data, _ := json.Marshal(base64.StdEncoding.EncodeToString([]byte(c.data)))
				body := sentBody(t, b, chat.Message{Role: chat.User, Parts: []chat.Part{{Type: chat.TypeFile, Data: data, MediaType: c.kind, Filename: "f"}}})
				if !strings.Contains(body, c.want) || strings.Contains(body, `"image`) != strings.HasPrefix(c.want, "image/") || strings.Contains(body, `"document"`) {
					t.Errorf("%q is not in\n%s", c.want, body)
				}
			})
		})
	}
}

func TestOversizedImageBecomesPlaceholder(t *testing.T) {
	data, _ := json.Marshal(base64.StdEncoding.EncodeToString(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 4<<20)...)))
	body := sentBody(t, adapters["anthropic"], chat.Message{Role: chat.User, Parts: []chat.Part{{Type: chat.TypeFile, Data: data, MediaType: "image/png", Filename: "f"}}})
	if !strings.Contains(body, "cannot see here: f (image/png)") || len(body) > 10_000 {
		t.Errorf("%.1000s", body)
	}
}

func TestEmptyToolResultSendsNoBlankText(t *testing.T) {
	for _, output := range []string{`{"type":"text","value":" \n"}`, `{"type":"content","value":[{"type":"text","text":" "}]}`} {
		body := sentBody(t, adapters["anthropic"], chat.Text(chat.User, "hi"),
			chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.ToolCall("c", "read", json.RawMessage(`{}`))}},
			chat.Message{Role: chat.Tool, Parts: []chat.Part{{Type: chat.TypeToolResult, ToolCallID: "c", ToolName: "read", Output: json.RawMessage(output)}}})
		if _, result, _ := strings.Cut(body, `"role":"user"},`); strings.Contains(result, `"content":null`) || strings.Contains(result, `"content":" `) {
			t.Error(body)
		}
	}
}
