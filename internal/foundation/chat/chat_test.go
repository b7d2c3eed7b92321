package chat_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
)

func value(t *testing.T, data []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

func roundTrip(t *testing.T, in string) chat.Message {
	t.Helper()
	var m chat.Message
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value(t, []byte(in)), value(t, out)); diff != "" {
		t.Errorf("%s became %s: %s", in, out, diff)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	return m
}

// The shapes that the AI SDK documents for ModelMessage.
func TestMessagesRoundTripUnchanged(t *testing.T) {
	for name, in := range map[string]string{
		"system":                  `{"role":"system","content":"Be brief."}`,
		"system with options":     `{"role":"system","content":"x","providerOptions":{"anthropic":{"cacheControl":{"type":"ephemeral"}}}}`,
		"user string":             `{"role":"user","content":"hi"}`,
		"user empty string":       `{"role":"user","content":""}`,
		"user no parts":           `{"role":"user","content":[]}`,
		"user text":               `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""}]}`,
		"user image URL":          `{"role":"user","content":[{"type":"image","image":"https://example.com/a.png"}]}`,
		"user image base64":       `{"role":"user","content":[{"type":"image","image":"iVBORw0KGgo=","mediaType":"image/png"}]}`,
		"user image bytes":        `{"role":"user","content":[{"type":"image","image":{"0":137,"1":80}}]}`,
		"user image, old name":    `{"role":"user","content":[{"type":"image","image":"x","mimeType":"image/png"}]}`,
		"user file":               `{"role":"user","content":[{"type":"file","data":"JVBERg==","filename":"a.pdf","mediaType":"application/pdf"}]}`,
		"user file empty fields":  `{"role":"user","content":[{"type":"file","data":"","filename":"","mediaType":null}]}`,
		"user file tagged data":   `{"role":"user","content":[{"type":"file","data":{"type":"url","url":"https://example.com/a"},"mediaType":"text/plain"}]}`,
		"user part options":       `{"role":"user","content":[{"type":"text","text":"a","providerOptions":{"openai":{"imageDetail":"low"}}}]}`,
		"assistant string":        `{"role":"assistant","content":"hi"}`,
		"assistant reasoning":     `{"role":"assistant","content":[{"type":"reasoning","text":"hm","providerOptions":{"anthropic":{"signature":"EqQB=="}}},{"type":"text","text":"a"}]}`,
		"assistant redacted":      `{"role":"assistant","content":[{"type":"reasoning","text":"","providerOptions":{"anthropic":{"redactedData":"x"}}}]}`,
		"assistant file":          `{"role":"assistant","content":[{"type":"file","data":"AAAA","mediaType":"image/png"}]}`,
		"assistant tool call":     `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"bash","input":{"command":"ls <&>","n":12345678901234567890}}]}`,
		"assistant input scalars": `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"x","input":null},{"type":"tool-call","toolCallId":"2","toolName":"x","input":"s"}]}`,
		"assistant provider tool": `{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"web","input":{},"providerExecuted":true},{"type":"tool-result","toolCallId":"1","toolName":"web","output":{"type":"json","value":[1]}}]}`,
		"assistant approval":      `{"role":"assistant","content":[{"type":"tool-approval-request","approvalId":"a1","toolCallId":"1"}]}`,
		"tool text":               `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"bash","output":{"type":"text","value":"ok"}}]}`,
		"tool json":               `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"x","output":{"type":"json","value":{"a":[null,1.50]}}}]}`,
		"tool error-text":         `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"x","output":{"type":"error-text","value":"no"}}]}`,
		"tool error-json":         `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"x","output":{"type":"error-json","value":{"code":1}}}]}`,
		"tool denied":             `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"x","output":{"type":"execution-denied","reason":"no"}}]}`,
		"tool content":            `{"role":"tool","content":[{"type":"tool-result","toolCallId":"1","toolName":"x","output":{"type":"content","value":[{"type":"text","text":"a"},{"type":"media","data":"AAAA","mediaType":"image/png"}]}}]}`,
		"tool approval":           `{"role":"tool","content":[{"type":"tool-approval-response","approvalId":"a1","approved":false,"reason":"no"}]}`,
		"unknown part type":       `{"role":"user","content":[{"type":"hologram","text":7,"data":{"x":[1]},"toolCallId":false,"providerOptions":{"p":{}}}]}`,
		"unknown fields":          `{"role":"user","id":"m1","createdAt":5,"x":null,"content":[{"type":"text","text":"a","state":"done","nested":{"y":[]}}]}`,
	} {
		t.Run(name, func(t *testing.T) { roundTrip(t, in) })
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	for name, in := range map[string]string{
		"no object":          `"hi"`,
		"null":               `null`,
		"no role":            `{"content":"x"}`,
		"unknown role":       `{"role":"king","content":"x"}`,
		"no content":         `{"role":"user"}`,
		"null content":       `{"role":"user","content":null}`,
		"a number":           `{"role":"user","content":5}`,
		"part without type":  `{"role":"user","content":[{"text":"x"}]}`,
		"null part":          `{"role":"user","content":[null]}`,
		"text is a number":   `{"role":"user","content":[{"type":"text","text":5}]}`,
		"text is null":       `{"role":"user","content":[{"type":"text","text":null}]}`,
		"call id is a list":  `{"role":"assistant","content":[{"type":"tool-call","toolCallId":[],"toolName":"x","input":{}}]}`,
		"no end of the JSON": `{"role":"user","content":`,
	} {
		var m chat.Message
		if err := json.Unmarshal([]byte(in), &m); err == nil {
			t.Errorf("%s: accepted as %+v", name, m)
		}
	}
}

func TestWhatIsMadeHereReads(t *testing.T) {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{
		chat.TextPart("a"), chat.ToolCall("1", "bash", json.RawMessage(`{"x":1}`)), chat.TextPart("b"), chat.ToolCall("2", "read", nil),
	}}
	out, err := json.Marshal(m)
	want := `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool-call","toolCallId":"1","toolName":"bash","input":{"x":1}},{"type":"text","text":"b"},{"type":"tool-call","toolCallId":"2","toolName":"read","input":{}}]}`
	if err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
	if m.Text() != "ab" || len(m.ToolCalls()) != 2 || len(m.ToolResults()) != 0 {
		t.Errorf("reads as %q with %d calls", m.Text(), len(m.ToolCalls()))
	}
	// A string cannot hold what a part has beside its text.
	s := chat.Text(chat.User, "a")
	s.Parts[0].ProviderOptions = json.RawMessage(`{"p":{}}`)
	if out, _ := json.Marshal(s); !strings.Contains(string(out), "providerOptions") {
		t.Errorf("the options were lost: %s", out)
	}
}

func TestOutputText(t *testing.T) {
	for in, want := range map[string]struct {
		text   string
		failed bool
	}{
		`{"type":"text","value":"ok"}`:               {"ok", false},
		`{"type":"error-text","value":"no"}`:         {"no", true},
		`{"type":"json","value":{"a":1}}`:            {`{"a":1}`, false},
		`{"type":"json","value":null}`:               {`null`, false},
		`{"type":"error-json","value":[1]}`:          {`[1]`, true},
		`{"type":"execution-denied","reason":"why"}`: {"The call was not allowed: why", true},
		`{"type":"execution-denied"}`:                {"The call was not allowed", true},
		`{"other":1}`:                                {`{"other":1}`, false},
	} {
		text, failed := chat.Part{Type: chat.TypeToolResult, Output: json.RawMessage(in)}.OutputText()
		if text != want.text || failed != want.failed {
			t.Errorf("%s reads as %q, %v", in, text, failed)
		}
	}
	if text, failed := chat.ToolResult("1", "x", "no", true).OutputText(); text != "no" || !failed {
		t.Errorf("reads as %q, %v", text, failed)
	}
}

func TestUsageAdds(t *testing.T) {
	a := chat.Usage{InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4, CostMicros: 5}
	if diff := cmp.Diff(chat.Usage{InputTokens: 2, OutputTokens: 4, CacheReadTokens: 6, CacheWriteTokens: 8, CostMicros: 10}, a.Add(a)); diff != "" {
		t.Error(diff)
	}
}

func TestSumsOfUsageDoNotOverflow(t *testing.T) {
	absurd := chat.Usage{InputTokens: math.MaxInt64 - 17, OutputTokens: math.MaxInt64, CacheReadTokens: math.MinInt64, CacheWriteTokens: -1, CostMicros: math.MaxInt64}
	total := absurd.Add(absurd).Add(chat.Usage{CacheWriteTokens: 7})
	want := chat.Usage{InputTokens: chat.MaxCount, OutputTokens: chat.MaxCount, CacheWriteTokens: 7, CostMicros: chat.MaxCount}
	if diff := cmp.Diff(want, total); diff != "" {
		t.Error(diff)
	}
	if got := absurd.Tokens(); got != chat.MaxCount {
		t.Errorf("%d tokens", got)
	}
}

// Whatever is accepted is stable: written and read again it is the same bytes.
func FuzzMessage(f *testing.F) {
	f.Add(`{"role":"user","content":"hi","x":1}`)
	f.Add(`{"role":"assistant","content":[{"type":"tool-call","toolCallId":"1","toolName":"x","input":{}},{"type":"file","filename":""}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		var m chat.Message
		if json.Unmarshal([]byte(in), &m) != nil {
			return
		}
		once, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back chat.Message
		if err := json.Unmarshal(once, &back); err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		twice, err := json.Marshal(back)
		if err != nil || string(once) != string(twice) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}
