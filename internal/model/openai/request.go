package openai

import (
	"encoding/json"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// options is the name under which this package keeps what it does not know.
const options = "openai"

// reasoningField, in the options of a reasoning part, names the field that
// the reasoning came in.
const reasoningField = "field"

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

func (m *Model) body(req llm.Request) ([]byte, error) {
	body := map[string]any{
		"model":          m.o.Model,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
		"messages":       m.messages(req),
	}
	limit := m.o.MaxOutputTokens
	if req.MaxOutputTokens > 0 {
		limit = req.MaxOutputTokens
	}
	if limit > 0 {
		// OpenAI's newer models refuse the old name, other servers do not
		// know the new one.
		if m.own {
			body["max_completion_tokens"] = limit
		} else {
			body["max_tokens"] = limit
		}
	}
	if m.own && req.Session != "" {
		body["prompt_cache_key"] = req.Session
	}
	if len(req.Tools) > 0 {
		tools := make([]wireTool, len(req.Tools))
		for i, t := range req.Tools {
			schema := t.Schema
			if len(schema) == 0 {
				schema = json.RawMessage(`{"type":"object","properties":{}}`)
			}
			tools[i] = wireTool{Type: "function", Function: wireFunction{t.Name, t.Description, schema}}
		}
		body["tools"] = tools
	}
	for name, v := range m.o.Body {
		body[name] = v
	}
	return json.Marshal(body)
}

// wireMessage is an object with open fields.
type wireMessage map[string]any

func (m *Model) messages(req llm.Request) []wireMessage {
	out := make([]wireMessage, 0, len(req.Messages)+1)
	if req.System != "" {
		out = append(out, wireMessage{"role": "system", "content": req.System})
	}
	// Tool messages hold text only; what else tools returned follows after
	// the last of them, since nothing may stand between them.
	var shown []wireMessage
	for i, msg := range req.Messages {
		if msg.Role != chat.Tool && len(shown) > 0 {
			out, shown = append(out, shown...), nil
		}
		switch msg.Role {
		case chat.System:
			if text := msg.Text(); text != "" {
				out = append(out, wireMessage{"role": "system", "content": text})
			}
		case chat.User:
			if content := m.userContent(msg.Parts); content != nil {
				out = append(out, wireMessage{"role": "user", "content": content})
			}
		case chat.Assistant:
			if w := assistantMessage(msg); w != nil {
				out = append(out, w)
			}
		case chat.Tool:
			for _, p := range req.Messages[i].ToolResults() {
				text, media := m.toolOutput(p)
				out = append(out, wireMessage{"role": "tool", "tool_call_id": p.ToolCallID, "content": text})
				if len(media) > 0 {
					shown = append(shown, wireMessage{"role": "user", "content": media})
				}
			}
		}
	}
	return append(out, shown...)
}

// userContent is a string when it is text alone, which every server accepts.
func (m *Model) userContent(parts []chat.Part) any {
	var content []wireMessage
	plain := true
	for _, p := range parts {
		switch p.Type {
		case chat.TypeText:
			if p.Text != "" {
				content = append(content, textContent(p.Text))
			}
		case chat.TypeImage, chat.TypeFile:
			w := m.media(llm.ParseMedia(p))
			plain = plain && w["type"] == "text"
			content = append(content, w)
		}
	}
	if len(content) == 0 {
		return nil
	}
	if !plain {
		return content
	}
	texts := make([]string, len(content))
	for i, c := range content {
		texts[i], _ = c["text"].(string)
	}
	return strings.Join(texts, "\n\n")
}

func textContent(text string) wireMessage { return wireMessage{"type": "text", "text": text} }

func (m *Model) media(media llm.Media) wireMessage {
	text, isText := media.Text()
	switch {
	case media.IsImage() && m.o.Images && media.URL != "":
		return wireMessage{"type": "image_url", "image_url": wireMessage{"url": media.URL}}
	case media.IsImage() && m.o.Images && media.Base64 != "":
		return wireMessage{"type": "image_url", "image_url": wireMessage{"url": media.DataURL()}}
	case isText:
		return textContent(text)
	case media.Type == "application/pdf" && media.Base64 != "":
		name := media.Filename
		if name == "" {
			name = "attachment.pdf"
		}
		return wireMessage{"type": "file", "file": wireMessage{"filename": name, "file_data": media.DataURL()}}
	case media.URL != "" && !media.IsImage():
		return textContent("[File at " + media.URL + "]")
	}
	return textContent(media.Placeholder())
}

// assistantMessage is nil for a message without anything that the protocol
// has a place for: servers refuse an empty one.
func assistantMessage(msg chat.Message) wireMessage {
	w := wireMessage{}
	for name, v := range llm.ProviderData(msg.ProviderOptions, options) {
		w[name] = v
	}
	var calls []wireMessage
	reasoning := map[string]string{}
	for _, p := range msg.Parts {
		switch p.Type {
		case chat.TypeReasoning:
			var field string
			if json.Unmarshal(llm.ProviderData(p.ProviderOptions, options)[reasoningField], &field) == nil {
				reasoning[field] += p.Text
			}
		case chat.TypeToolCall:
			if isProviderExecuted(p) {
				continue
			}
			calls = append(calls, toolCall(p))
		}
	}
	text := msg.Text()
	if text == "" && len(calls) == 0 {
		return nil
	}
	w["role"] = "assistant"
	if text != "" {
		w["content"] = text
	} else {
		w["content"] = nil
	}
	if len(calls) > 0 {
		w["tool_calls"] = calls
		// Models that think between tool calls want their thoughts back;
		// once they have answered, the same models refuse or ignore them.
		for field, said := range reasoning {
			if isReasoning(field) {
				w[field] = said
			}
		}
	}
	return w
}

func toolCall(p chat.Part) wireMessage {
	w := wireMessage{}
	for name, v := range llm.ProviderData(p.ProviderOptions, options) {
		w[name] = v
	}
	function := wireMessage{}
	if kept, ok := w["function"].(json.RawMessage); ok && json.Unmarshal(kept, &function) != nil {
		function = wireMessage{}
	}
	function["name"], function["arguments"] = llm.SafeToolName(p.ToolName), string(llm.SafeToolInput(p))
	w["id"], w["type"], w["function"] = p.ToolCallID, "function", function
	return w
}

// isProviderExecuted says that a provider ran the tool itself; its call means
// nothing to another server.
func isProviderExecuted(p chat.Part) bool { return string(p.Extra["providerExecuted"]) == "true" }

// toolOutput returns a result as text, and the media in it as content that a
// user message can hold.
func (m *Model) toolOutput(p chat.Part) (text string, media []wireMessage) {
	text, failed := p.OutputText()
	var out struct {
		Type  string      `json:"type"`
		Value []chat.Part `json:"value"`
	}
	if json.Unmarshal(p.Output, &out) == nil && out.Type == "content" {
		var texts []string
		for _, part := range out.Value {
			if part.Type == chat.TypeText {
				texts = append(texts, part.Text)
				continue
			}
			w := m.media(llm.ParseResultMedia(part))
			if said, ok := w["text"].(string); ok {
				texts = append(texts, said)
				continue
			}
			media = append(media, w)
		}
		text = strings.Join(texts, "\n")
		if len(media) > 0 {
			media = append([]wireMessage{textContent("[What the tool " + p.ToolName + " returned]")}, media...)
		}
	}
	if failed && !strings.HasPrefix(strings.ToLower(text), "error") {
		text = "Error: " + text
	}
	if text == "" {
		text = "(no output)"
	}
	return text, media
}
