package openai

import (
	"encoding/json"
	"sync/atomic"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

const (
	// options is the key of this package's data in provider options.
	options = "openai"
	// reasoningField, in the data of a reasoning part, names the field of the message
	// that the reasoning came in, or contentThinking.
	reasoningField = "field"
	// contentThinking means that the reasoning was a part of the content (Mistral).
	contentThinking = "content.thinking"
	// contentReasoning means that it was another part of the content. It is not sent back.
	contentReasoning = "content.reasoning"
)

// messageData and callData list the fields that servers want back, because they check
// their signatures or need them to continue a thought. Servers refuse other fields.
var (
	messageData = []string{
		"reasoning_details",                  // OpenRouter, Vercel, MiniMax
		"extra_content",                      // Gemini
		"reasoning_opaque", "reasoning_text", // GitHub Copilot
		"thinking_blocks", "provider_specific_fields", // LiteLLM
	}
	callData = []string{"extra_content", "provider_specific_fields", "thought_signature"}
)

// message is an object with open fields.
type message map[string]any

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// body encodes a request in the dialect that the facts describe, and lists what it sends.
func (e *encoder) body(req llm.Request, facts llm.Facts, change llm.Change) ([]byte, llm.Sent, error) {
	sent := llm.Sent{MaxOutputTokens: e.o.OutputLimit(req, facts, change)}
	w := writer{source: e.o.Source(), accepted: e.o.Accepted(facts), ownHost: e.own, facts: facts, noReasoning: change.NoReasoning}
	messages := w.messages(req)
	sent.Media, sent.Tools = w.media > 0, len(req.Tools) > 0
	body := message{
		"model":          e.o.Model,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
		"messages":       messages,
	}
	if sent.MaxOutputTokens > 0 {
		// OpenAI's newer models refuse the old name; other servers don't know the new one.
		if e.own {
			body["max_completion_tokens"] = sent.MaxOutputTokens
		} else {
			body["max_tokens"] = sent.MaxOutputTokens
		}
	}
	if e.own && req.Session != "" {
		body["prompt_cache_key"] = llm.ShortID(req.Session, llm.MaxCacheKey)
	}
	e.tune(body)
	for name, v := range e.o.Body {
		body[name] = v
	}
	var calls []message
	for _, msg := range messages {
		of, _ := msg["tool_calls"].([]message)
		calls = append(calls, of...)
	}
	sent.Fields = llm.ApplyFacts(facts, []message{body}, messages, calls)
	encoded, err := json.Marshal(body)
	if _, configured := body["tools"]; err != nil || configured || len(req.Tools) == 0 {
		return encoded, sent, err
	}
	tools, err := e.tools.encode(req.Tools, facts)
	encoded = append(encoded[:len(encoded)-1], `,"tools":`...)
	return append(append(encoded, tools...), '}'), sent, err
}

// encodedTools keeps the JSON of the tools of the last call. Encoding them takes longer than the
// rest of a short request, and nearly all requests have the same.
type encodedTools struct{ last atomic.Pointer[toolsJSON] }

type toolsJSON struct {
	specs []llm.ToolSpec
	plain bool // see [llm.Facts]
	text  []byte
}

func (e *encodedTools) encode(specs []llm.ToolSpec, facts llm.Facts) ([]byte, error) {
	if last := e.last.Load(); last != nil && len(last.specs) == len(specs) && &last.specs[0] == &specs[0] && last.plain == facts.PlainSchemas {
		return last.text, nil
	}
	tools := make([]wireTool, len(specs))
	for i, t := range specs {
		tools[i] = wireTool{Type: "function", Function: wireFunction{t.Name, t.Description, facts.ToolSchema(t.Schema)}}
	}
	text, err := json.Marshal(tools)
	if err == nil {
		e.last.Store(&toolsJSON{specs, facts.PlainSchemas, text})
	}
	return text, err
}

func (e *encoder) tune(body message) {
	t := e.o.Tuning
	if t.Effort != "" {
		body["reasoning_effort"] = t.Effort
	}
	if t.ThinkingTokens > 0 {
		body["reasoning"] = message{"max_tokens": t.ThinkingTokens} // OpenRouter
	}
	llm.SetSampling(body, t)
}

// isProviderExecuted reports whether the provider ran the tool itself. Such a call means
// nothing to another server.
func isProviderExecuted(p chat.Part) bool { return string(p.Extra["providerExecuted"]) == "true" }
