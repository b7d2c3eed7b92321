package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"lilac/internal/testkit/llmtest"
)

var (
	callName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	escapes  = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)
)

// refusals returns the reasons for which a real provider would reject a request. Each of them
// causes status 400 for this request and for all later ones with the same history.
func refusals(r llmtest.Request) []string {
	v := &refusal{calls: map[string]bool{}, anyID: r.Protocol == llmtest.OpenAI}
	if !utf8.Valid(r.Body) {
		v.add("the body is not UTF-8")
	}
	if halves(r.Body) {
		v.add("the body holds half a character")
	}
	var body struct {
		System   json.RawMessage
		Messages []wireMessage
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		v.add("the body: %v", err)
		return v.why
	}
	if len(body.Messages) == 0 {
		v.add("no messages")
		return v.why
	}
	if r.Protocol == llmtest.Anthropic {
		if n := strings.Count(string(r.Body), `"cache_control"`); n > 4 {
			v.add("%d cache marks", n)
		}
		v.anthropic(body.Messages)
	} else {
		v.openai(body.Messages)
	}
	return v.why
}

// halves reports whether JSON contains an escaped surrogate without its counterpart.
func halves(body []byte) bool {
	high := -1 // end of the previous high surrogate
	for _, at := range escapes.FindAllIndex(body, -1) {
		var n int
		if body[at[0]+1] != 'u' {
			continue
		}
		_, _ = fmt.Sscanf(string(body[at[0]+2:at[1]]), "%04x", &n)
		switch {
		case high >= 0 && (n < 0xDC00 || n > 0xDFFF || at[0] != high):
			return true
		case high >= 0:
			high = -1
		case n >= 0xD800 && n <= 0xDBFF:
			high = at[1]
		case n >= 0xDC00 && n <= 0xDFFF:
			return true
		}
	}
	return high >= 0
}

type wireMessage struct {
	Role       string
	Content    json.RawMessage
	ToolCallID string     `json:"tool_call_id"`
	ToolCalls  []wireCall `json:"tool_calls"`
}

type wireCall struct {
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
}

type wireBlock struct {
	Type, Text, ID, Name string
	Input                json.RawMessage
	ToolUseID            string `json:"tool_use_id"`
	Content              json.RawMessage
	Thinking             *string
	Signature, Data      string
}

type refusal struct {
	why   []string
	calls map[string]bool
	anyID bool
}

func (v *refusal) add(format string, args ...any) {
	v.why = append(v.why, fmt.Sprintf(format, args...))
}

func (v *refusal) call(id, name string) {
	if !v.anyID && !callID.MatchString(id) {
		v.add("the id %q of a call", id)
	}
	if !callName.MatchString(name) {
		v.add("the name %q of a call", name)
	}
	if v.calls[id] {
		v.add("two calls %q", id)
	}
	v.calls[id] = true
}

func (v *refusal) anthropic(messages []wireMessage) {
	var open []string
	for i, m := range messages {
		if want := []string{"user", "assistant"}[i%2]; m.Role != want {
			v.add("message %d is of the %s", i, m.Role)
		}
		var blocks []wireBlock
		if json.Unmarshal(m.Content, &blocks) != nil || len(blocks) == 0 {
			v.add("message %d has content %.80s", i, m.Content)
			continue
		}
		answered := 0
		for j, b := range blocks {
			switch b.Type {
			case "text":
				if strings.TrimSpace(b.Text) == "" {
					v.add("blank text in message %d", i)
				}
			case "tool_use":
				v.call(b.ID, b.Name)
				var input map[string]any
				if json.Unmarshal(b.Input, &input) != nil || input == nil {
					v.add("the input %s", b.Input)
				}
				if m.Role != "assistant" {
					v.add("a call of the user")
				}
				open = append(open, b.ID)
			case "tool_result":
				if j >= len(open) || m.Role != "user" {
					v.add("a result at %d of message %d that nothing called for", j, i)
					continue
				}
				found := false
				for _, id := range open {
					found = found || id == b.ToolUseID
				}
				if !found {
					v.add("a result of %q", b.ToolUseID)
				}
				if string(b.Content) == "null" {
					v.add("a result without content")
				}
				answered++
			case "thinking":
				if b.Signature == "" || b.Thinking == nil {
					v.add("thoughts without signature")
				}
			case "redacted_thinking":
				if b.Data == "" {
					v.add("redacted without data")
				}
			case "image", "document":
			default:
				v.add("a block of type %q", b.Type)
			}
		}
		if m.Role == "user" {
			if answered != len(open) {
				v.add("%d results of %d calls in message %d", answered, len(open), i)
			}
			open = nil
		}
	}
	if last := messages[len(messages)-1].Role; last != "user" {
		v.add("the last message is of the %s", last)
	}
}

func (v *refusal) openai(messages []wireMessage) {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role != "tool" && len(open) > 0 {
			v.add("calls without results before message %d: %v", i, open)
			open = map[string]bool{}
		}
		switch m.Role {
		case "assistant":
			if len(m.ToolCalls) == 0 && (string(m.Content) == "null" || string(m.Content) == `""` || len(m.Content) == 0) {
				v.add("message %d says nothing", i)
			}
			for _, c := range m.ToolCalls {
				v.call(c.ID, c.Function.Name)
				var input map[string]any
				if json.Unmarshal([]byte(c.Function.Arguments), &input) != nil || c.Type != "function" {
					v.add("the call %+v", c)
				}
				open[c.ID] = true
			}
		case "tool":
			if !open[m.ToolCallID] {
				v.add("a result of %q in message %d", m.ToolCallID, i)
			}
			delete(open, m.ToolCallID)
			if m.Content == nil || string(m.Content) == "null" {
				v.add("result without content")
			}
		case "user", "system":
			if string(m.Content) == `""` || string(m.Content) == "null" || string(m.Content) == "[]" {
				v.add("message %d of %s is empty", i, m.Role)
			}
		default:
			v.add("role %q", m.Role)
		}
	}
	if len(open) > 0 {
		v.add("calls without results at the end: %v", open)
	}
	if last := messages[len(messages)-1].Role; last == "assistant" {
		v.add("the last message is of the assistant")
	}
}
