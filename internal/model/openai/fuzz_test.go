package openai_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/testkit/llmtest"
)

// piece is one delta of an answer in the usual dialect.
type piece map[string]any

// validAnswer returns an answer of text, reasoning, and tool calls as deltas.
func validAnswer(r *rand.Rand) []piece {
	words := []string{"Hello ", "wörld ", "😀 ", "a\nb ", "\"quoted\" ", "{\"x\":1} ", "<tag> "}
	var out []piece
	for range r.IntN(4) {
		out = append(out, piece{"reasoning_content": words[r.IntN(len(words))]})
	}
	for range 1 + r.IntN(5) {
		out = append(out, piece{"content": words[r.IntN(len(words))]})
	}
	for i := range r.IntN(4) {
		arguments := []string{`{}`, `{"n":1}`, `{"text":"é😀 \" }"}`, `{"deep":{"list":[1,{"a":"}"}]}}`}[r.IntN(4)]
		name := dialectTools[r.IntN(len(dialectTools))].Name
		out = append(out, piece{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprint("call", i), "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}}})
	}
	return out
}

// encodeDialect writes deltas as some host could: cut anew, with other types, other
// framing, and other ids, without changing their meaning.
func encodeDialect(r *rand.Rand, deltas []piece) string {
	indexMode, newline, separator := r.IntN(4), []string{"\n", "\r\n"}[r.IntN(2)], r.IntN(2)
	escape := r.IntN(2) == 0
	calls := 0
	var b strings.Builder
	send := func(delta any, finish any) {
		choice := map[string]any{"index": 0, []string{"delta", "delta", "message"}[r.IntN(3)]: delta, "finish_reason": finish}
		chunk := map[string]any{"object": "chat.completion.chunk", "choices": []any{choice}}
		if r.IntN(4) == 0 {
			chunk["choices"] = choice
		}
		data, _ := json.Marshal(chunk)
		if escape {
			data = llmtest.EscapeJSON(data)
		}
		if r.IntN(5) == 0 {
			fmt.Fprintf(&b, ": comment%s%s", newline, newline)
		}
		b.WriteString([]string{"data: ", "data:"}[r.IntN(2)] + string(data) + newline)
		if separator == 0 {
			b.WriteString(newline)
		}
	}
	cut := func(s string, send func(piece string)) {
		for s != "" {
			n := 1 + r.IntN(len(s))
			for n < len(s) && s[n]&0xC0 == 0x80 {
				n++
			}
			send(s[:n])
			s = s[n:]
		}
	}
	for _, d := range deltas {
		switch {
		case d["content"] != nil:
			cut(d["content"].(string), func(s string) {
				if r.IntN(4) == 0 {
					send(piece{"content": []any{map[string]any{"type": "text", "text": s}}}, nil)
					return
				}
				send(piece{"content": s, "role": "assistant"}, nil)
			})
		case d["reasoning_content"] != nil:
			cut(d["reasoning_content"].(string), func(s string) { send(piece{"reasoning_content": s, "content": nil}, nil) })
		default:
			whole := d["tool_calls"].([]any)[0].(map[string]any)
			function := whole["function"].(map[string]any)
			frame := func(f map[string]any, first bool) map[string]any {
				out := map[string]any{"function": f, "type": "function"}
				switch indexMode {
				case 0:
					out["index"] = calls
				case 1: // always 0, ids tell the calls apart
					out["index"] = 0
				case 2:
					out["index"] = fmt.Sprint(calls)
				}
				if first {
					out["id"] = whole["id"]
				}
				return out
			}
			name, arguments := function["name"].(string), function["arguments"].(string)
			switch r.IntN(3) {
			case 0: // in one piece, the arguments as an object
				send(piece{"tool_calls": []any{frame(map[string]any{"name": name, "arguments": json.RawMessage(arguments)}, true)}}, nil)
			case 1: // the name first
				send(piece{"tool_calls": []any{frame(map[string]any{"name": name, "arguments": ""}, true)}}, nil)
				cut(arguments, func(s string) { send(piece{"tool_calls": []any{frame(map[string]any{"arguments": s}, false)}}, nil) })
			default:
				send(piece{"tool_calls": []any{frame(map[string]any{"name": name, "arguments": arguments}, true)}}, nil)
			}
			calls++
		}
	}
	send(piece{}, []any{"stop", "tool_calls"}[r.IntN(2)])
	if r.IntN(2) == 0 {
		b.WriteString("data: [DONE]" + newline + newline)
	}
	return b.String()
}

// meaning is the part of an answer that must not depend on the dialect.
func meaning(t *testing.T, transport http.RoundTripper) []string {
	t.Helper()
	done, failed := answer(t, transport)
	if failed != nil {
		t.Fatalf("%v", failed)
	}
	var out []string
	for _, p := range done.Message.Parts {
		var value any
		if p.Type == chat.TypeToolCall {
			if err := json.Unmarshal(p.Input, &value); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, fmt.Sprintf("%s %s %s %v %s", p.Type, p.Text, p.ToolName, value, p.ToolCallID))
		if strings.Contains(string(p.ProviderOptions), "invalidInput") {
			t.Errorf("the input of a call is invalid: %s", p.ProviderOptions)
		}
	}
	return out
}

// FuzzDialects checks that an answer means the same in every dialect.
func FuzzDialects(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, content, dialect uint64) {
		deltas := validAnswer(rand.New(rand.NewPCG(content, 1)))
		var plain strings.Builder
		for _, d := range deltas {
			data, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": d}}})
			fmt.Fprintf(&plain, "data: %s\n\n", data)
		}
		plain.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		want := meaning(t, response{"text/event-stream", plain.String()})
		stream := encodeDialect(rand.New(rand.NewPCG(dialect, 2)), deltas)
		if diff := cmp.Diff(want, meaning(t, response{"text/event-stream", stream})); diff != "" {
			t.Errorf("(-usual +dialect):\n%s\n%s", diff, stream)
		}
	})
}
