package llmtest

import (
	"encoding/json"
	"strings"
)

type wireRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

func decode(protocol Protocol, body []byte) (Request, error) {
	if protocol == Responses {
		return decodeResponses(body)
	}
	var w wireRequest
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, err
	}
	r := Request{Protocol: protocol, Body: body, Model: w.Model}
	for _, m := range w.Messages {
		out := Message{Role: m.Role, Results: map[string]string{}}
		texts, blocks := content(m.Content)
		out.Text = texts
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				out.Calls = append(out.Calls, b.Name)
			case "tool_result":
				out.Results[b.ToolUseID], _ = content(b.Content)
			}
		}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, c.Function.Name)
		}
		if m.Role == "tool" {
			out.Results[m.ToolCallID], out.Text = out.Text, ""
		}
		r.Messages = append(r.Messages, out)
	}
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, t.Name+t.Function.Name)
	}
	return r, nil
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

func content(raw json.RawMessage) (text string, blocks []wireBlock) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	_ = json.Unmarshal(raw, &blocks) // no blocks if it is not a list
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n"), blocks
}
