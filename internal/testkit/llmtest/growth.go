package llmtest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
)

// maxAnswers bounds how many answers the server remembers.
const maxAnswers = 10_000

// A conversation must only grow at its end: before an answer of the server, each later call
// must repeat exactly what the call that it answered had. Otherwise providers read nothing
// from their caches, and the newest models refuse thinking. growth checks this for every
// protocol. It recognizes an answer by its content, and a conversation by its first message,
// so that a conversation that begins with a summary is a new one.
type growth struct {
	// made holds, by answer and first message, the prefixes that the answer followed.
	made map[answerKey]map[prefixHash]bool
	n    int
}

type (
	prefixHash [sha256.Size]byte
	answerKey  struct{ model, first, answer prefixHash }
)

// unit is a piece of a conversation: a block, a call, or a result.
type unit struct {
	role string
	// answer is its part of the content by which an answer is recognized.
	answer string
	// raw is everything that is sent.
	raw string
}

// conversation is a request in the form that the checks compare.
type conversation struct {
	// base is what precedes the messages: instructions and tools.
	base  string
	units []unit
	// marks are the positions of cache breakpoints: the numbers of units before them.
	marks []int
}

func hashed(parts ...string) prefixHash { return sha256.Sum256(encode(parts)) }

// prefix returns the hash of the first n units.
func (c conversation) prefix(n int) prefixHash {
	parts := make([]string, 0, 2*n+1)
	parts = append(parts, c.base)
	for _, u := range c.units[:n] {
		parts = append(parts, u.role, u.raw)
	}
	return hashed(parts...)
}

func (c conversation) first() prefixHash {
	for _, u := range c.units {
		if u.role == "user" {
			return hashed(u.raw)
		}
	}
	return prefixHash{}
}

// check returns what a request changes, or "". The answers that it contains must follow what
// they followed when they were made.
func (g *growth) check(model string, c conversation) string {
	end := len(c.units)
	for end > 0 {
		for end > 0 && c.units[end-1].role != "assistant" {
			end--
		}
		start := end
		for start > 0 && c.units[start-1].role == "assistant" {
			start--
		}
		if start == end {
			return ""
		}
		prefixes := g.made[answerKey{hashed(model), c.first(), answerOf(c.units[start:end])}]
		if len(prefixes) > 0 {
			if prefixes[c.prefix(start)] {
				return ""
			}
			return fmt.Sprintf("messages: the conversation before an earlier answer has changed (%d blocks precede it)", start)
		}
		end = start
	}
	return ""
}

// record notes the answer that a script gives to a request, unless the script breaks it off.
func (g *growth) record(model string, c conversation, s Script) {
	if s.Hang || s.NoEnd || s.CutAfter > 0 || s.Malformed != "" || s.ErrorType != "" || s.Reset || s.Status != 0 && s.Status != 200 || g.n >= maxAnswers {
		return
	}
	g.n++
	units := []unit{{answer: strings.Join(s.Text, "")}}
	for _, call := range s.Calls {
		units = append(units, unit{answer: callKey(call.Name, json.RawMessage(call.Input))})
	}
	key := answerKey{hashed(model), c.first(), answerOf(units)}
	if g.made == nil {
		g.made = map[answerKey]map[prefixHash]bool{}
	}
	if g.made[key] == nil {
		g.made[key] = map[prefixHash]bool{}
	}
	g.made[key][c.prefix(len(c.units))] = true
}

func answerOf(units []unit) prefixHash {
	var parts []string
	for _, u := range units {
		if u.answer != "" {
			parts = append(parts, u.answer)
		}
	}
	return hashed(parts...)
}

// callKey identifies a call without its id, which some servers omit.
func callKey(name string, input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		input = json.RawMessage(text)
	}
	var v any
	if json.Unmarshal(input, &v) == nil {
		input = encode(v)
	}
	return "call " + name + " " + string(input)
}

// conversationOf decodes a request of any protocol.
func conversationOf(protocol Protocol, body []byte) conversation {
	var request struct {
		System, Tools, Instructions json.RawMessage
		Messages, Input             []map[string]json.RawMessage
	}
	_ = json.Unmarshal(body, &request) // empty if it is not a request
	var c conversation
	c.base = string(encode([]any{withoutMarks(request.System), withoutMarks(request.Tools), request.Instructions}))
	if marked(request.Tools) || marked(request.System) {
		c.marks = append(c.marks, 0)
	}
	messages := request.Messages
	if protocol == Responses {
		messages = request.Input
	}
	for i, m := range messages {
		role := stringOf(m["role"])
		switch {
		case i == 0 && role == "system":
			c.base += string(encode(m))
		case protocol == Responses:
			c.units = append(c.units, itemUnit(role, m))
		default:
			c.addMessage(role, m)
		}
	}
	return c
}

func itemUnit(role string, m map[string]json.RawMessage) unit {
	u := unit{role: role, raw: string(encode(m))}
	switch stringOf(m["type"]) {
	case "reasoning":
		u.role = "assistant"
	case "function_call":
		u.role, u.answer = "assistant", callKey(stringOf(m["name"]), m["arguments"])
	case "function_call_output":
		u.role = "tool"
	default:
		u.answer = texts(m["content"])
	}
	return u
}

// addMessage adds the blocks of a message of chat completions or of Anthropic's Messages.
func (c *conversation) addMessage(role string, m map[string]json.RawMessage) {
	var text string
	var blocks []map[string]json.RawMessage
	switch {
	case json.Unmarshal(m["content"], &text) == nil && text != "":
		c.units = append(c.units, unit{role, text, string(encode([]any{text, m["tool_call_id"]}))})
	case json.Unmarshal(m["content"], &blocks) == nil:
		for _, b := range blocks {
			_, mark := b["cache_control"]
			delete(b, "cache_control")
			u := unit{role: role, raw: string(encode(b))}
			switch stringOf(b["type"]) {
			case "text":
				u.answer = stringOf(b["text"])
			case "tool_use":
				u.answer = callKey(stringOf(b["name"]), b["input"])
			case "tool_result":
				u.role = "tool"
			}
			c.units = append(c.units, u)
			if mark {
				c.marks = append(c.marks, len(c.units))
			}
		}
	case role == "tool":
		c.units = append(c.units, unit{role: role, raw: string(encode(m))})
	}
	var calls []struct {
		ID       string
		Function struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	_ = json.Unmarshal(m["tool_calls"], &calls) // none
	for _, call := range calls {
		c.units = append(c.units, unit{role, callKey(call.Function.Name, call.Function.Arguments), string(encode(call))})
	}
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if v, ok := m[name]; ok {
			c.units = append(c.units, unit{role: role, raw: name + string(v)})
		}
	}
}

func marked(raw json.RawMessage) bool { return strings.Contains(string(raw), `"cache_control"`) }

func withoutMarks(raw json.RawMessage) any {
	var v any
	_ = json.Unmarshal(raw, &v) // nil if there is none
	withoutCacheMarks(v)
	return v
}

func stringOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // empty if it is not a string
	return s
}
