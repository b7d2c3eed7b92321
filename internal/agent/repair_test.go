package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
)

// short writes a conversation as a line: u, a(calls), t(results), ! for failed.
func short(messages []chat.Message) string {
	var out []string
	for _, m := range messages {
		s := string(m.Role[:1])
		for _, p := range m.Parts {
			switch p.Type {
			case chat.TypeToolCall:
				s += " " + p.ToolCallID
			case chat.TypeToolResult:
				s += " " + p.ToolCallID
				if _, failed := p.OutputText(); failed {
					s += "!"
				}
			}
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// parse is the inverse of short.
func parse(line string) []chat.Message {
	var out []chat.Message
	for s := range strings.SplitSeq(line, ", ") {
		f := strings.Fields(s)
		switch f[0] {
		case "u":
			out = append(out, chat.Text(chat.User, "hello"))
		case "a":
			m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{chat.TextPart("I say")}}
			for _, id := range f[1:] {
				m.Parts = append(m.Parts, call(id, "echo", `{}`))
			}
			out = append(out, m)
		case "-": // an assistant message that says nothing
			out = append(out, chat.Message{Role: chat.Assistant, Parts: []chat.Part{{Type: chat.TypeReasoning, Text: "hm"}}})
		case "t":
			m := chat.Message{Role: chat.Tool}
			for _, id := range f[1:] {
				m.Parts = append(m.Parts, chat.ToolResult(strings.TrimSuffix(id, "!"), "echo", "out", strings.HasSuffix(id, "!")))
			}
			out = append(out, m)
		}
	}
	return out
}

func TestRepair(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"well formed":                  {"u, a x y, t x y, a", "u, a x y, t x y, a"},
		"a lost result":                {"u, a x y, t x, u", "u, a x y, t x y!, u"},
		"no results":                   {"u, a x", "u, a x, t x!"},
		"out of order":                 {"u, a x y, t y x", "u, a x y, t x y"},
		"two for one call":             {"u, a x, t x x!", "u, a x, t x"},
		"in several messages":          {"u, a x y, t x, t y", "u, a x y, t x y"},
		"a message between":            {"u, a x, u, t x", "u, a x, t x, u"},
		"a result of nothing":          {"u, t z, a, t q", "u, a"},
		"a result behind another turn": {"u, a x, a y, t y x", "u, a x, t x!, a y, t y"},
		"a repeated call":              {"u, a x x, t x", "u, a x, t x"},
		"the same id in two turns":     {"u, a x, t x, a x, t x!", "u, a x, t x, a x, t x!"},
		"says nothing":                 {"u, -, u", "u, u"},
	} {
		t.Run(name, func(t *testing.T) {
			in := parse(c.in)
			if d := cmp.Diff(c.want, short(agent.Repair(in))); d != "" {
				t.Error(d)
			}
			if short(in) != short(parse(c.in)) {
				t.Error("the argument was modified")
			}
		})
	}
}

func TestRepairKeepsProviderExecutedResults(t *testing.T) {
	m := parse("a x")
	m[0].Parts = append(m[0].Parts, chat.ToolResult("x", "search", "found", false))
	if got := agent.Repair(m); len(got) != 1 {
		t.Error(short(got))
	}
}

// conversation draws messages in any order, well formed or not.
func conversation(t *rapid.T) []chat.Message {
	n := rapid.IntRange(0, 30).Draw(t, "messages")
	var out []chat.Message
	for range n {
		ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 3).Draw(t, "ids")
		text := strings.Repeat(rapid.StringN(1, 6, -1).Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "times"))
		m := chat.Message{Role: rapid.SampledFrom([]chat.Role{chat.User, chat.Assistant, chat.Tool, chat.System}).Draw(t, "role")}
		if m.Role != chat.Tool {
			m.Parts = append(m.Parts, chat.TextPart(text))
		}
		for _, id := range ids {
			switch m.Role {
			case chat.Assistant:
				m.Parts = append(m.Parts, call(id, "echo", `{}`))
			case chat.Tool:
				m.Parts = append(m.Parts, chat.ToolResult(id, "echo", text, false))
			}
		}
		out = append(out, m)
	}
	return out
}

func TestRepairAlwaysYieldsAWellFormedConversation(t *testing.T) {
	broken := 0
	rapid.Check(t, func(t *rapid.T) {
		in := conversation(t)
		if malformed(in) != "" {
			broken++
		}
		once := agent.Repair(in)
		if p := malformed(once); p != "" {
			t.Fatal(p)
		}
		a, _ := json.Marshal(once)
		b, _ := json.Marshal(agent.Repair(once))
		if string(a) != string(b) {
			t.Fatal("not idempotent")
		}
	})
	if broken == 0 {
		t.Error("control: no conversation was broken before the repair")
	}
}

func FuzzRepair(f *testing.F) {
	f.Add("u, a x y, t y, u, t x")
	f.Add("-, t x, a x x, a")
	f.Fuzz(func(t *testing.T, line string) {
		if strings.TrimSpace(line) == "" || strings.Contains(line, ", ,") {
			return
		}
		for s := range strings.SplitSeq(line, ", ") {
			if strings.TrimSpace(s) == "" {
				return
			}
		}
		out := agent.Repair(parse(line))
		if p := malformed(out); p != "" {
			t.Fatal(p, fmt.Sprint(short(out)))
		}
	})
}
