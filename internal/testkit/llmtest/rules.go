package llmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// dialectFields are the fields of messages and calls that the fake's chat completions send in
// addition to OpenAI's, like other hosts, and accept back.
var dialectFields = []string{"reasoning_content", "reasoning_details", "extra_content"}

// CheckBody returns what a provider would refuse in the body of a call, or nil: what its
// description does not know, and calls of tools without results.
func CheckBody(protocol Protocol, body []byte) error {
	if protocol == OpenAI {
		body = withoutDialect(body)
	}
	return errors.Join(ValidateBody(protocol, body), checkResults(protocol, body))
}

// withoutDialect removes the fields of the fake's dialect.
func withoutDialect(body []byte) []byte {
	if !slices.ContainsFunc(dialectFields, func(name string) bool { return bytes.Contains(body, []byte(`"`+name+`"`)) }) {
		return body
	}
	var fields, message map[string]json.RawMessage
	var messages []json.RawMessage
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["messages"], &messages) != nil {
		return body
	}
	remove := func(from map[string]json.RawMessage) {
		for _, name := range dialectFields {
			delete(from, name)
		}
	}
	for i := range messages {
		message = nil
		if json.Unmarshal(messages[i], &message) != nil {
			continue
		}
		remove(message)
		var calls []map[string]json.RawMessage
		if json.Unmarshal(message["tool_calls"], &calls) == nil && len(calls) > 0 {
			for _, c := range calls {
				remove(c)
			}
			message["tool_calls"] = encode(calls)
		}
		messages[i] = encode(message)
	}
	fields["messages"] = encode(messages)
	return encode(fields)
}

// turn is a message reduced to its calls of tools and their results.
type turn struct{ calls, results []string }

// checkResults reports calls whose results do not follow at once, and results without a call.
// All providers refuse both.
func checkResults(protocol Protocol, body []byte) error {
	var open []string
	for i, t := range turnsOf(protocol, body) {
		for _, id := range t.results {
			at := slices.Index(open, id)
			if at < 0 {
				return fmt.Errorf("message %d: the result of the call %q follows no call", i, id)
			}
			open = slices.Delete(open, at, at+1)
		}
		if len(t.results) > 0 && len(t.calls) == 0 {
			continue // the results of one answer may be in several messages
		}
		if len(open) > 0 && (protocol != Responses || len(t.calls) == 0) {
			return fmt.Errorf("message %d: the results of the calls %v are missing", i, open)
		}
		open = append(open, t.calls...)
	}
	if len(open) > 0 {
		return fmt.Errorf("at the end: the results of the calls %v are missing", open)
	}
	return nil
}

func turnsOf(protocol Protocol, body []byte) (out []turn) {
	var request struct {
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			Result    string          `json:"tool_call_id"`
			ToolCalls []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Input []struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
		} `json:"input"`
	}
	_ = json.Unmarshal(body, &request) // the schema reports it
	for _, item := range request.Input {
		switch item.Type {
		case "function_call":
			out = append(out, turn{calls: []string{item.CallID}})
		case "function_call_output":
			out = append(out, turn{results: []string{item.CallID}})
		}
	}
	for _, m := range request.Messages {
		var t turn
		for _, c := range m.ToolCalls {
			t.calls = append(t.calls, c.ID)
		}
		if m.Role == "tool" {
			t.results = append(t.results, m.Result)
		}
		var blocks []struct {
			Type      string `json:"type"`
			ID        string `json:"id"`
			ToolUseID string `json:"tool_use_id"`
		}
		_ = json.Unmarshal(m.Content, &blocks) // none if it is a string
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				t.calls = append(t.calls, b.ID)
			case "tool_result":
				t.results = append(t.results, b.ToolUseID)
			}
		}
		out = append(out, t)
	}
	return out
}

// anthropicFields lists the known fields of Anthropic's Messages by the kind of the object.
// There is no public description under a free license; the list follows the documentation.
var anthropicFields = map[string][]string{
	"body": {
		"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k", "stop_sequences",
		"thinking", "output_config", "metadata", "service_tier", "container", "context_management", "mcp_servers",
	},
	"message":           {"role", "content"},
	"tool":              {"type", "name", "description", "input_schema", "cache_control", "strict"},
	"text":              {"type", "text", "cache_control", "citations"},
	"image":             {"type", "source", "cache_control"},
	"document":          {"type", "source", "title", "context", "citations", "cache_control"},
	"tool_use":          {"type", "id", "name", "input", "cache_control", "caller"},
	"tool_result":       {"type", "tool_use_id", "content", "is_error", "cache_control"},
	"thinking":          {"type", "thinking", "signature"},
	"redacted_thinking": {"type", "data"},
}

// anthropicNeeds lists the fields that an object must have.
var anthropicNeeds = map[string][]string{
	"body": {"model", "max_tokens", "messages"}, "message": {"role", "content"}, "tool": {"name", "input_schema"}, "text": {"text"}, "image": {"source"},
	"document": {"source"}, "tool_use": {"id", "name", "input"}, "tool_result": {"tool_use_id"}, "thinking": {"thinking", "signature"}, "redacted_thinking": {"data"},
}

// maxMarks limits the cache breakpoints of a request.
const maxMarks = 4

var anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// checkAnthropic reports what Anthropic's API would refuse in a body.
func checkAnthropic(body []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	if err := checkObject("body", "body", fields); err != nil {
		return err
	}
	if marks := bytes.Count(body, []byte(`"cache_control":`)); marks > maxMarks {
		return fmt.Errorf("a maximum of %d blocks with cache_control may be provided, found %d", maxMarks, marks)
	}
	var tools, messages []map[string]json.RawMessage
	_ = json.Unmarshal(fields["tools"], &tools) // none
	for i, tool := range tools {
		if err := checkObject(fmt.Sprintf("tools.%d", i), "tool", tool); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(fields["messages"], &messages); err != nil || len(messages) == 0 {
		return errors.New("messages: at least one message is required")
	}
	for i, m := range messages {
		if err := checkAnthropicMessage(fmt.Sprintf("messages.%d", i), m); err != nil {
			return err
		}
	}
	if role := stringOf(messages[0]["role"]); role != "user" {
		return fmt.Errorf("messages.0: the first message has the role %q", role)
	}
	if role := stringOf(messages[len(messages)-1]["role"]); role != "user" {
		return fmt.Errorf("the last message has the role %q", role)
	}
	return nil
}

func checkAnthropicMessage(at string, m map[string]json.RawMessage) error {
	if err := checkObject(at, "message", m); err != nil {
		return err
	}
	if role := stringOf(m["role"]); role != "user" && role != "assistant" {
		return fmt.Errorf("%s.role: unexpected role %q", at, role)
	}
	var blocks []map[string]json.RawMessage
	if stringOf(m["content"]) == "" && (json.Unmarshal(m["content"], &blocks) != nil || len(blocks) == 0) {
		return fmt.Errorf("%s: the content is empty", at)
	}
	results := true // so far, the blocks are results
	for i, b := range blocks {
		kind, at := stringOf(b["type"]), fmt.Sprintf("%s.content.%d", at, i)
		if err := checkObject(at, kind, b); err != nil {
			return err
		}
		switch {
		case kind == "text" && strings.TrimSpace(stringOf(b["text"])) == "":
			return fmt.Errorf("%s: text content blocks must contain non-whitespace text", at)
		case kind == "tool_result" && !results:
			return fmt.Errorf("%s: results must come first", at)
		case kind == "tool_use" && (!anthropicName.MatchString(stringOf(b["id"])) || !anthropicName.MatchString(stringOf(b["name"])) || !bytes.HasPrefix(b["input"], []byte("{"))):
			return fmt.Errorf("%s: the id, the name, or the input is invalid", at)
		}
		results = results && kind == "tool_result"
	}
	return nil
}

// checkObject reports unknown and missing fields. Kinds that the list does not have are those
// of a test.
func checkObject(at, kind string, fields map[string]json.RawMessage) error {
	known, ok := anthropicFields[kind]
	if !ok {
		return nil
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s.%s: Extra inputs are not permitted", at, name)
		}
	}
	for _, name := range anthropicNeeds[kind] {
		if v := fields[name]; len(v) == 0 || string(v) == "null" {
			return fmt.Errorf("%s.%s: Field required", at, name)
		}
	}
	return nil
}
