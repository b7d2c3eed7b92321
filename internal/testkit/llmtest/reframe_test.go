package llmtest_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/llmtest"
)

// said is a part of an answer whose meaning must not depend on the dialect.
type said struct{ kind, text, id, name, input string }

// anyAnswer returns thinking, text, and calls.
func anyAnswer(r *rand.Rand) []said {
	words := []string{"Hello ", "wörld ", "😀 ", "a\nb ", "\"quoted\" ", "{\"x\":1} ", "data: x\n\n", "<tag> "}
	text := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[r.IntN(len(words))])
		}
		return b.String()
	}
	var out []said
	if r.IntN(2) == 0 {
		out = append(out, said{kind: "thinking", text: text(1 + r.IntN(3))})
	}
	if r.IntN(4) > 0 {
		out = append(out, said{kind: "text", text: text(1 + r.IntN(4))})
	}
	for i := range r.IntN(4) {
		out = append(out, said{
			kind: "call", id: fmt.Sprint("call_", i), name: []string{"x", "y"}[r.IntN(2)],
			input: []string{`{}`, `{"n":1}`, `{"text":"é😀 \" }"}`, `{"deep":{"list":[1,{"a":"}"}]}}`}[r.IntN(4)],
		})
	}
	if len(out) == 0 {
		out = append(out, said{kind: "text", text: "Yes."})
	}
	return out
}

// recut cuts a text into pieces of whole characters.
func recut(r *rand.Rand, s string) []string {
	var out []string
	for s != "" {
		n := 1 + r.IntN(len(s))
		for n < len(s) && s[n]&0xC0 == 0x80 {
			n++
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// reframe writes events with the framing of some server, and with signs of life between them.
func reframe(r *rand.Rand, named bool, events []map[string]any) string {
	newline, empty, escape := []string{"\n", "\r\n", "\r"}[r.IntN(3)], r.IntN(3) > 0, r.IntN(2) == 0
	prefix := []string{"data: ", "data:"}[r.IntN(2)]
	var b strings.Builder
	for _, e := range events {
		data, _ := json.Marshal(e)
		if escape {
			data = llmtest.EscapeJSON(data)
		}
		switch r.IntN(12) {
		case 0:
			b.WriteString(": a comment" + newline + newline)
		case 1:
			b.WriteString(prefix + `{"type":"ping"}` + newline + newline)
		case 2:
			b.WriteString(prefix + `{"type":"event.of.tomorrow","x":[1]}` + newline + newline)
		}
		if named {
			fmt.Fprintf(&b, "event: %v%s", e["type"], newline)
		}
		b.WriteString(prefix + string(data) + newline)
		if empty {
			b.WriteString(newline)
		}
	}
	if r.IntN(3) == 0 {
		b.WriteString(newline + "data: [DONE]" + newline + newline)
	}
	return b.String()
}

// interleave mixes queues of events without changing the order within one.
func interleave(r *rand.Rand, queues [][]map[string]any) []map[string]any {
	var out []map[string]any
	for len(queues) > 0 {
		i := r.IntN(len(queues))
		out = append(out, queues[i][0])
		if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
			queues = append(queues[:i], queues[i+1:]...)
		}
	}
	return out
}

// fuzzDialects checks that an answer means the same however a server writes it.
func fuzzDialects(f *testing.F, adapter string, write func(r *rand.Rand, answer []said) string) {
	for seed := range uint64(150) {
		f.Add(seed, seed*7)
	}
	f.Fuzz(func(t *testing.T, content, dialect uint64) {
		answer := anyAnswer(rand.New(rand.NewPCG(content, 1)))
		stream := write(rand.New(rand.NewPCG(dialect, 2)), answer)
		m := adapters[adapter]("http://model.test", &http.Client{Transport: cannedResponse(stream)}, llm.Retry{Max: -1}, time.Minute)
		h := collect(t.Context(), m, prompt)
		if h.err != nil {
			t.Fatalf("%v\n%s", h.err, stream)
		}
		if diff := cmp.Diff(meaning(answer), meaning(heard(h.done.Message))); diff != "" {
			t.Errorf("(-said +heard):\n%s\n%s", diff, stream)
		}
		if h.done.Usage.InputTokens != 100 || h.done.Usage.OutputTokens != 20 {
			t.Errorf("usage is %+v\n%s", h.done.Usage, stream)
		}
	})
}

func heard(m chat.Message) []said {
	var out []said
	for _, p := range m.Parts {
		switch p.Type {
		case chat.TypeReasoning:
			out = append(out, said{kind: "thinking", text: p.Text})
		case chat.TypeText:
			out = append(out, said{kind: "text", text: p.Text})
		case chat.TypeToolCall:
			out = append(out, said{kind: "call", id: p.ToolCallID, name: p.ToolName, input: string(p.Input)})
		}
	}
	return out
}

// meaning returns the parts with their inputs decoded.
func meaning(parts []said) []any {
	var out []any
	for _, p := range parts {
		var input any
		if p.kind == "call" && json.Unmarshal([]byte(p.input), &input) != nil {
			input = "invalid: " + p.input
		}
		out = append(out, []any{p.kind, p.text, p.id, p.name, input})
	}
	return out
}

// anthropicBlocks returns the events of each block.
func anthropicBlocks(r *rand.Rand, answer []said, position func(i int) any) [][]map[string]any {
	var queues [][]map[string]any
	for i, p := range answer {
		var events []map[string]any
		add := func(kind, name string, v any) {
			e := map[string]any{"type": kind, name: v}
			if at := position(i); at != nil {
				e["index"] = at
			}
			events = append(events, e)
		}
		delta := func(kind, name string, v any) {
			add("content_block_delta", "delta", map[string]any{"type": kind, name: v})
		}
		switch p.kind {
		case "call":
			start := map[string]any{"type": "tool_use", "id": p.id, "name": p.name, "input": map[string]any{}}
			mode := r.IntN(4)
			if mode == 0 { // whole, in the start
				start["input"] = json.RawMessage(p.input)
			}
			add("content_block_start", "content_block", start)
			switch mode {
			case 1: // the object itself
				delta("input_json_delta", "partial_json", json.RawMessage(p.input))
			case 2, 3:
				delta("input_json_delta", "partial_json", "")
				for _, piece := range recut(r, p.input) {
					delta("input_json_delta", "partial_json", piece)
				}
			}
		default:
			name := p.kind // of the field
			if r.IntN(4) > 0 {
				start := map[string]any{"type": p.kind, name: ""}
				if r.IntN(4) == 0 {
					start[name], p.text = p.text, ""
				}
				add("content_block_start", "content_block", start)
			}
			for _, piece := range recut(r, p.text) {
				delta(p.kind+"_delta", name, piece)
			}
		}
		if r.IntN(3) > 0 {
			add("content_block_stop", "x", 1)
		}
		queues = append(queues, events)
	}
	return queues
}

func FuzzAnthropicDialects(f *testing.F) {
	fuzzDialects(f, "anthropic", func(r *rand.Rand, answer []said) string {
		mode := r.IntN(6)
		position := func(i int) any {
			return []any{i, fmt.Sprint(i), json.Number(fmt.Sprint(i, ".0")), i + 1, 0, nil}[mode]
		}
		queues := anthropicBlocks(r, answer, position)
		start := map[string]any{"type": "message_start", "message": map[string]any{"model": "m", "usage": map[string]any{"input_tokens": "100", "output_tokens": 1}}}
		end := map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": "end_turn"}, "usage": map[string]any{"output_tokens": json.Number("20.0"), "input_tokens": 0}}
		blocks := []map[string]any{}
		if mode < 4 && r.IntN(2) == 0 {
			blocks = interleave(r, queues)
		} else {
			for _, q := range queues {
				blocks = append(blocks, q...)
			}
		}
		events := append(append([]map[string]any{start}, blocks...), end)
		if r.IntN(3) > 0 {
			events = append(events, map[string]any{"type": "message_stop"})
		}
		return reframe(r, r.IntN(2) == 0, events)
	})
}

// responsesItem returns the complete item of a part.
func responsesItem(p said, id string) map[string]any {
	switch p.kind {
	case "thinking":
		return map[string]any{"type": "reasoning", "id": id, "summary": []any{map[string]any{"type": "summary_text", "text": p.text}}}
	case "text":
		return map[string]any{"type": "message", "id": id, "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": p.text}}}
	}
	return map[string]any{"type": "function_call", "id": id, "call_id": p.id, "name": p.name, "arguments": p.input}
}

// responsesEvents returns the events of item i. They say which item they belong to by an
// index, an id, or both.
func responsesEvents(r *rand.Rand, p said, index any, id string) []map[string]any {
	var events []map[string]any
	add := func(kind string, fields map[string]any) {
		fields["type"] = "response." + kind
		if index != nil {
			fields["output_index"] = index
		}
		events = append(events, fields)
	}
	piece := func(kind, name string, v any) {
		fields := map[string]any{name: v}
		if id != "" {
			fields["item_id"] = id
		}
		add(kind, fields)
	}
	item := responsesItem(p, id)
	begin := map[string]any{"type": item["type"], "id": id}
	if p.kind == "call" {
		begin["call_id"], begin["name"], begin["arguments"] = p.id, p.name, ""
	}
	if p.kind == "call" || r.IntN(3) > 0 {
		add("output_item.added", map[string]any{"item": begin})
	}
	kind := map[string]string{"thinking": "reasoning_summary_text", "text": "output_text", "call": "function_call_arguments"}[p.kind]
	final := map[string]string{"thinking": "text", "text": "text", "call": "arguments"}[p.kind]
	text := p.text + p.input
	mode := r.IntN(3)
	if mode < 2 {
		for _, s := range recut(r, text) {
			piece(kind+".delta", "delta", s)
		}
	}
	if mode > 0 {
		piece(kind+".done", final, text)
	}
	if mode == 2 || r.IntN(2) == 0 {
		add("output_item.done", map[string]any{"item": item})
	}
	return events
}

func FuzzResponsesDialects(f *testing.F) {
	fuzzDialects(f, "responses", func(r *rand.Rand, answer []said) string {
		mode, withID := r.IntN(5), r.IntN(2) == 0
		var queues [][]map[string]any
		output := []any{}
		for i, p := range answer {
			id := ""
			if withID {
				id = fmt.Sprint("item_", i)
			}
			index := []any{i, fmt.Sprint(i), i + 1, 0, nil}[mode]
			queues = append(queues, responsesEvents(r, p, index, id))
			output = append(output, responsesItem(p, id))
		}
		var events []map[string]any
		if mode < 3 && r.IntN(2) == 0 {
			events = interleave(r, queues)
		} else {
			for _, q := range queues {
				events = append(events, q...)
			}
		}
		switch r.IntN(4) {
		case 0:
			output = []any{} // some servers leave it empty
		case 1:
			events = nil // or send nothing else
		}
		return reframe(r, r.IntN(2) == 0, append(events, map[string]any{"type": "response.completed", "response": map[string]any{
			"status": "completed", "model": "m", "output": output, "usage": map[string]any{"input_tokens": "100", "output_tokens": 20.0},
		}}))
	})
}
