package openai_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// habit is how a server writes parallel calls.
type habit struct{ index, id, name, args, order string }

type wantedCall struct{ name, args string }

// isClear reports whether the habit says anywhere which piece belongs to which call.
func (h habit) isClear(calls []wantedCall) bool {
	differ := h.index == "right" || h.index == "string" || h.index == "from one" || h.index == "float"
	switch {
	case h.order == "interleaved" && !differ && h.id != "every":
		return false
	case h.id == "changes" && (!differ || h.name == "every"):
		return false
	case strings.HasPrefix(h.id, "same") && !differ && calls[0] == calls[1]:
		return false // a repetition
	}
	return true
}

// inputs cuts the arguments of a call; nil means that a piece has none.
func (h habit) inputs(args string) []any {
	var out []any
	switch h.args {
	case "whole":
		out = []any{args}
	case "object":
		out = []any{json.RawMessage(args)}
	case "pieces":
		for _, r := range args {
			out = append(out, string(r))
		}
	case "empty first":
		out = []any{"", args[:1], args[1:]}
	case "null first":
		out = []any{json.RawMessage("null"), args[:1], args[1:]}
	case "encoded twice":
		quoted, _ := json.Marshal(args)
		out = []any{string(quoted)}
	}
	switch h.name {
	case "alone":
		return append([]any{nil}, out...)
	case "split":
		return append([]any{nil, nil}, out...)
	}
	return out
}

// named returns the name in piece j; ok is false if it has none.
func (h habit) named(name string, j int) (out any, ok bool) {
	half := (len(name) + 1) / 2
	switch {
	case h.name == "split" && j == 0:
		return name[:half], true
	case h.name == "split" && j == 1 && half < len(name):
		return name[half:], true
	case h.name == "split":
		return nil, false
	case j == 0 || h.name == "every":
		return name, true
	case h.name == "empty later":
		return "", true
	}
	return nil, h.name == "null later"
}

// pieces returns the deltas of call i.
func (h habit) pieces(i int, call wantedCall) []string {
	var out []string
	inputs := h.inputs(call.args)
	for j, in := range inputs {
		function := map[string]any{}
		if in != nil {
			function["arguments"] = in
		}
		if name, ok := h.named(call.name, j); ok {
			function["name"] = name
		}
		p := map[string]any{"type": "function", "function": function}
		index := map[string]any{"right": i, "zero": 0, "null": nil, "string": fmt.Sprint(i), "from one": i + 1, "float": json.Number(fmt.Sprint(i, ".0"))}
		if v, ok := index[h.index]; ok {
			p["index"] = v
		}
		own := fmt.Sprint("c", i)
		switch {
		case h.id == "first" && j == 0, h.id == "every", h.id == "empty later" && j == 0, h.id == "late" && j == len(inputs)-1:
			p["id"] = own
		case h.id == "empty later", h.id == "empty":
			p["id"] = ""
		case h.id == "null":
			p["id"] = nil
		case h.id == "same" && j == 0, h.id == "same in every":
			p["id"] = "c"
		case h.id == "number" && j == 0:
			p["id"] = i
		case h.id == "changes":
			p["id"] = fmt.Sprint(own, "-", j)
		}
		encoded, _ := json.Marshal(p)
		out = append(out, string(encoded))
	}
	return out
}

func (h habit) stream(calls []wantedCall) string {
	var queues [][]string
	for i, c := range calls {
		queues = append(queues, h.pieces(i, c))
	}
	all := slices.Concat(queues...)
	switch h.order {
	case "one chunk":
		return callDelta(strings.Join(all, ","))
	case "interleaved":
		all = nil
		for j := 0; ; j++ {
			before := len(all)
			for _, q := range queues {
				if j < len(q) {
					all = append(all, q[j])
				}
			}
			if len(all) == before {
				break
			}
		}
	}
	return callDelta(all...)
}

// Servers combine their habits, so this test does. A part of the combinations runs.
func TestHabitsOfParallelCalls(t *testing.T) {
	const part = 29
	n, ran := 0, 0
	for _, calls := range [][]wantedCall{
		{{"x", `{"n":1}`}, {"y", `{"n":2}`}},
		{{"x", `{"n":1}`}, {"x", `{"n":2}`}},
		{{"get_weather", `{"a":{"b":"}"}}`}, {"x", `{}`}, {"get_weather", `{"a":2}`}},
		{{"x", `{}`}, {"x", `{}`}},
		{{"x", `{}`}, {"y", `{}`}},
	} {
		for _, index := range []string{"right", "zero", "absent", "null", "string", "from one", "float"} {
			for _, id := range []string{"first", "every", "empty", "absent", "null", "same", "same in every", "number", "late", "empty later", "changes"} {
				for _, name := range []string{"first", "every", "empty later", "null later", "split", "alone"} {
					for _, args := range []string{"whole", "object", "pieces", "empty first", "null first", "encoded twice"} {
						for _, order := range []string{"sequential", "interleaved", "one chunk"} {
							h := habit{index, id, name, args, order}
							if n++; n%part != 0 || !h.isClear(calls) {
								continue
							}
							ran++
							checkHabit(t, h, calls)
						}
					}
				}
			}
		}
	}
	t.Logf("%d of %d combinations", ran, n)
}

func checkHabit(t *testing.T, h habit, calls []wantedCall) {
	t.Helper()
	done, failed := answer(t, response{"text/event-stream", h.stream(calls)})
	if failed != nil {
		t.Errorf("%+v: %v", h, failed)
		return
	}
	var got []wantedCall
	ids := map[string]bool{}
	for _, p := range done.Message.ToolCalls() {
		got = append(got, wantedCall{p.ToolName, string(p.Input)})
		ids[p.ToolCallID] = true
	}
	if !slices.Equal(got, calls) || len(ids) != len(calls) {
		t.Errorf("%+v: want %v, got %v with ids %v", h, calls, got, ids)
	}
}
