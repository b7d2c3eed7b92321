package anthropic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/order"
	"lilac/internal/model/llm"
)

// provider is the key of this package's data in provider options.
const provider = "anthropic"

// maxImageBase64 is the documented limit of an image, in bytes of base64.
const maxImageBase64 = 5 << 20

// typeCustom is the AI SDK's type for provider-specific content.
const typeCustom chat.PartType = "custom"

// object is a JSON object with open fields.
type object map[string]any

type wireMessage struct {
	Role    string   `json:"role"`
	Content []object `json:"content"`
}

var ephemeral = object{"type": "ephemeral"}

// body encodes a request in the dialect that the facts describe, and lists what it sends.
// prefix is the hash of the conversation.
func (e *encoder) body(req llm.Request, facts llm.Facts, change llm.Change) (encoded []byte, prefix string, sent llm.Sent, err error) {
	sent = llm.Sent{MaxOutputTokens: e.o.OutputLimit(req, facts, change)}
	w := writer{source: e.o.Source(), facts: facts, accepted: e.o.Accepted(facts), noReasoning: change.NoReasoning}
	system, messages := w.convertMessages(req)
	sent.Media, sent.Tools = w.media > 0, len(req.Tools) > 0
	markCacheBreakpoints(messages)
	body := object{"model": e.o.Model, "max_tokens": sent.MaxOutputTokens, "stream": true, "messages": messages}
	if e.vertex {
		delete(body, "model")
		body["anthropic_version"] = vertexVersion
	}
	if system != "" {
		body["system"] = []object{{"type": "text", "text": system, "cache_control": ephemeral}}
	}
	if len(req.Tools) > 0 {
		tools := make([]object, len(req.Tools))
		for i, t := range req.Tools {
			tools[i] = object{"name": t.Name, "description": t.Description, "input_schema": facts.ToolSchema(t.Schema)}
		}
		tools[len(tools)-1]["cache_control"] = ephemeral
		body["tools"] = tools
	}
	e.tune(body, sent.MaxOutputTokens)
	if continuesWithoutThinking(messages) {
		omitThinkingBudget(body)
	}
	for name, v := range e.o.Body {
		body[name] = v
	}
	systemBlocks, _ := body["system"].([]object)
	tools, _ := body["tools"].([]object)
	groups := [][]object{systemBlocks, tools}
	for _, msg := range messages {
		groups = append(groups, msg.Content)
	}
	inBlocks := llm.Facts{Omit: maps.Clone(facts.Omit)}
	for _, name := range streamed["thinking"] { // the option of this name is another field
		delete(inBlocks.Omit, name)
	}
	sent.Fields = append(llm.ApplyFacts(facts, []object{body}), llm.ApplyFacts(inBlocks, groups...)...)
	encoded, err = json.Marshal(body)
	return encoded, w.prefix.sum(), sent, err
}

// minThinking is the smallest thinking budget that the protocol accepts, in tokens.
const minThinking = 1024

func (e *encoder) tune(body object, limit int) {
	t := e.o.Tuning
	if t.Effort != "" && t.Effort != "none" {
		body["output_config"] = object{"effort": t.Effort}
		if t.ThinkingTokens == 0 {
			body["thinking"] = object{"type": "adaptive", "display": "summarized"}
		}
	}
	if budget := min(t.ThinkingTokens, limit-1); budget >= minThinking {
		body["thinking"] = object{"type": "enabled", "budget_tokens": budget}
	}
	llm.SetSampling(body, t)
}

// continuesWithoutThinking reports whether the call continues an answer whose thinking was
// dropped. With a thinking budget, the protocol refuses such a call.
func continuesWithoutThinking(messages []wireMessage) bool {
	n := len(messages)
	if n < 2 || !slices.ContainsFunc(messages[n-1].Content, func(b object) bool { return b["type"] == "tool_result" }) {
		return false
	}
	answer := messages[n-2].Content
	return len(answer) > 0 && answer[0]["type"] != "thinking" && answer[0]["type"] != "redacted_thinking"
}

func omitThinkingBudget(body object) {
	if thinking, ok := body["thinking"].(object); ok && thinking["type"] == "enabled" {
		delete(body, "thinking")
	}
}

// markCacheBreakpoints sets cache breakpoints at the last two user turns: the request
// writes the last one and reads the one before it, which the previous step wrote.
func markCacheBreakpoints(messages []wireMessage) {
	marks := 2
	for _, msg := range slices.Backward(messages) {
		if marks == 0 {
			return
		}
		if msg.Role == "user" && len(msg.Content) > 0 {
			msg.Content[len(msg.Content)-1]["cache_control"] = ephemeral
			marks--
		}
	}
}

// writer converts a conversation to the messages of a request.
type writer struct {
	source      string // see [llm.Options.Source]
	facts       llm.Facts
	accepted    llm.Accepted
	noReasoning bool // omit the reasoning of earlier answers
	media       int  // the number of images and documents written
	prefix      prefixHash
}

// convertMessages converts the conversation to the form that the protocol requires: a
// separate system prompt, alternating roles starting with the user, and tool results at
// the start of the turn after their calls.
func (w *writer) convertMessages(req llm.Request) (system string, out []wireMessage) {
	system = req.System
	begun := false
	for _, msg := range req.Messages {
		role, content := "user", []object(nil)
		switch msg.Role {
		case chat.System:
			text := msg.Text()
			switch {
			case text == "":
			case !begun:
				system = strings.TrimPrefix(system+"\n\n"+text, "\n\n")
			default:
				content = []object{textBlock("<system>\n" + text + "\n</system>")}
			}
		case chat.User:
			content = w.userBlocks(msg.Parts)
		case chat.Tool:
			for _, p := range msg.ToolResults() {
				content = append(content, w.resultBlock(p))
			}
		case chat.Assistant:
			if !begun {
				w.prefix.add("system", system, req.Tools)
			}
			role, content = "assistant", w.assistantBlocks(msg)
		}
		if len(content) == 0 {
			continue
		}
		if !begun && role == "user" {
			w.prefix.add("system", system, req.Tools)
		}
		w.prefix.add(role, content)
		if !begun && role == "assistant" {
			out = append(out, wireMessage{"user", []object{textBlock("(The conversation continues.)")}})
		}
		begun = true
		if n := len(out); n > 0 && out[n-1].Role == role {
			out[n-1].Content = append(out[n-1].Content, content...)
			continue
		}
		out = append(out, wireMessage{role, content})
	}
	if n := len(out); n == 0 || out[n-1].Role == "assistant" {
		out = append(out, wireMessage{"user", []object{textBlock("Continue.")}})
	}
	for _, msg := range out {
		order.By(msg.Content, func(a, b object) int { return resultsFirst(a) - resultsFirst(b) })
	}
	return system, out
}

func resultsFirst(block object) int {
	if block["type"] == "tool_result" {
		return 0
	}
	return 1
}

func textBlock(text string) object { return object{"type": "text", "text": text} }

func (w *writer) userBlocks(parts []chat.Part) []object {
	var out []object
	for _, p := range parts {
		switch p.Type {
		case chat.TypeText:
			if strings.TrimSpace(p.Text) != "" { // the protocol refuses blank text blocks
				out = append(out, textBlock(p.Text))
			}
		case chat.TypeImage, chat.TypeFile:
			out = append(out, w.mediaBlock(llm.ParseMedia(p)))
		}
	}
	return out
}

func (w *writer) mediaBlock(media llm.Media) object {
	var source object
	switch {
	case media.URL != "":
		source = object{"type": "url", "url": media.URL}
	case media.Base64 != "":
		source = object{"type": "base64", "media_type": media.Type, "data": media.Base64}
	}
	text, isText := media.Text()
	switch {
	case source != nil && media.IsImage() && w.accepted.Images && len(media.Base64) <= maxImageBase64:
		w.media++
		return object{"type": "image", "source": source}
	case source != nil && media.Type == "application/pdf" && w.accepted.PDFs:
		w.media++
		block := object{"type": "document", "source": source}
		if media.Filename != "" {
			block["title"] = media.Filename
		}
		return block
	case isText:
		return textBlock(text)
	case media.URL != "" && !media.IsImage():
		return textBlock("[File at " + media.URL + "]")
	}
	return textBlock(media.Placeholder())
}

func (w *writer) assistantBlocks(msg chat.Message) []object {
	var out []object
	own := llm.FromSource(msg, w.source)
	noReasoning := w.noReasoning || !llm.FollowsPrefix(msg, w.prefix.sum())
	for _, p := range msg.Parts {
		var kept map[string]json.RawMessage
		if own {
			kept = llm.ProviderData(p.ProviderOptions, provider)
		}
		block := object{}
		for name, v := range kept {
			block[name] = v
		}
		switch p.Type {
		case chat.TypeText:
			if strings.TrimSpace(p.Text) == "" {
				continue
			}
			block["type"], block["text"] = "text", p.Text
		case chat.TypeReasoning:
			switch data := kept["redactedData"]; {
			case noReasoning:
				continue
			case len(data) > 0:
				delete(block, "redactedData")
				block["type"], block["data"] = "redacted_thinking", data
			case len(kept["signature"]) > 0:
				block["type"], block["thinking"] = "thinking", p.Text
			default:
				continue
			}
		case chat.TypeToolCall:
			if string(p.Extra["providerExecuted"]) == "true" {
				continue
			}
			block["type"], block["id"] = "tool_use", safeCallID(p.ToolCallID)
			block["name"], block["input"] = llm.SafeToolName(p.ToolName), llm.SafeToolInput(p)
		case typeCustom:
			block = object{}
			if json.Unmarshal(kept["block"], &block) != nil || len(block) == 0 {
				continue
			}
		default:
			continue
		}
		out = append(out, block)
	}
	return out
}

func (w *writer) resultBlock(p chat.Part) object {
	text, failed := p.OutputText()
	block := object{"type": "tool_result", "tool_use_id": safeCallID(p.ToolCallID)}
	if failed {
		block["is_error"] = true
	}
	var out struct {
		Type  string      `json:"type"`
		Value []chat.Part `json:"value"`
	}
	if json.Unmarshal(p.Output, &out) == nil && out.Type == "content" {
		var content []object
		for _, part := range out.Value {
			if part.Type == chat.TypeText {
				content = append(content, w.userBlocks([]chat.Part{part})...)
				continue
			}
			content = append(content, w.mediaBlock(llm.ParseResultMedia(part)))
		}
		if len(content) > 0 {
			block["content"] = content
		}
		return block
	}
	if strings.TrimSpace(text) != "" {
		block["content"] = text
	}
	return block
}

// safeCallID replaces the characters of another provider's tool call id that this
// protocol refuses: it allows letters, digits, _, and - only.
func safeCallID(id string) string {
	id = llm.ShortID(id, llm.MaxResponseID)
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, id)
}
