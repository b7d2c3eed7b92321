package openai

import (
	"encoding/json"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// writer converts a conversation to the messages of a request.
type writer struct {
	source      string // see [llm.Options.Source]
	accepted    llm.Accepted
	ownHost     bool // OpenAI's own endpoint
	facts       llm.Facts
	noReasoning bool // omit the reasoning of earlier answers
	media       int  // the number of images and documents written
}

func (w *writer) messages(req llm.Request) []message {
	out := make([]message, 0, len(req.Messages)+1)
	if req.System != "" {
		out = append(out, w.systemMessage(req.System, true))
	}
	// Tool messages can only hold text. Media that tools returned follow after the last
	// of them, because no other message may separate them.
	var returned []message
	for i, msg := range req.Messages {
		if msg.Role != chat.Tool && len(returned) > 0 {
			out, returned = append(out, returned...), nil
		}
		switch msg.Role {
		case chat.System:
			if text := msg.Text(); text != "" {
				out = append(out, w.systemMessage(text, len(out) == 0 || len(out) == 1 && out[0]["role"] == "system"))
			}
		case chat.User:
			if content := w.userContent(msg.Parts); content != nil {
				out = append(out, message{"role": "user", "content": content})
			}
		case chat.Assistant:
			if converted := w.assistantMessage(msg); converted != nil {
				out = append(out, converted)
			}
		case chat.Tool:
			for _, p := range req.Messages[i].ToolResults() {
				text, media := w.toolOutput(p)
				out = append(out, message{"role": "tool", "tool_call_id": w.callID(p), "content": text})
				if len(media) > 0 {
					returned = append(returned, message{"role": "user", "content": media})
				}
			}
		}
	}
	out = mergeTurns(append(out, returned...))
	if w.facts.StrictTurns {
		out = separateTools(out)
	}
	return out
}

// systemMessage returns instructions. Many chat templates accept the system role only at the
// beginning, and some (Gemma's) nowhere.
func (w *writer) systemMessage(text string, first bool) message {
	if (first || w.ownHost) && !w.facts.NoSystem {
		return message{"role": "system", "content": text}
	}
	return message{"role": "user", "content": "<system>\n" + text + "\n</system>"}
}

// mergeTurns merges adjacent messages of one role. Chat templates of Mistral, Gemma, and
// others refuse them, and they would stay in the history.
func mergeTurns(messages []message) []message {
	out := messages[:0]
	for _, msg := range messages {
		if len(out) > 0 && canMerge(out[len(out)-1], msg) {
			last := out[len(out)-1]
			for name, v := range msg {
				if _, exists := last[name]; !exists {
					last[name] = v
				}
			}
			last["content"] = mergeContent(last["content"], msg["content"])
			continue
		}
		out = append(out, msg)
	}
	return out
}

func canMerge(last, next message) bool {
	if last["role"] != next["role"] || last["role"] == "tool" {
		return false
	}
	return last["tool_calls"] == nil
}

func mergeContent(a, b any) any {
	first, isText := a.(string)
	second, alsoText := b.(string)
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case isText && alsoText:
		return first + "\n\n" + second
	}
	return append(contentList(a), contentList(b)...)
}

func contentList(content any) []message {
	if text, ok := content.(string); ok {
		return []message{textContent(text)}
	}
	parts, _ := content.([]message)
	return parts
}

// separateTools puts an assistant message between a tool message and a user message, which
// Mistral's API requires.
func separateTools(messages []message) []message {
	var out []message
	for i, msg := range messages {
		if i > 0 && msg["role"] == "user" && messages[i-1]["role"] == "tool" {
			out = append(out, message{"role": "assistant", "content": "(A message arrived.)"})
		}
		out = append(out, msg)
	}
	return out
}

// userContent returns a string for text alone, which every server accepts.
func (w *writer) userContent(parts []chat.Part) any {
	var content []message
	plain := true
	for _, p := range parts {
		switch p.Type {
		case chat.TypeText:
			if p.Text != "" {
				content = append(content, textContent(p.Text))
			}
		case chat.TypeImage, chat.TypeFile:
			part := w.mediaContent(llm.ParseMedia(p))
			plain = plain && part["type"] == "text"
			content = append(content, part)
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

func textContent(text string) message { return message{"type": "text", "text": text} }

func (w *writer) mediaContent(media llm.Media) message {
	text, isText := media.Text()
	switch {
	case media.IsImage() && w.accepted.Images && media.URL != "":
		w.media++
		return message{"type": "image_url", "image_url": message{"url": media.URL}}
	case media.IsImage() && w.accepted.Images && media.Base64 != "":
		w.media++
		return message{"type": "image_url", "image_url": message{"url": media.DataURL()}}
	case isText:
		return textContent(text)
	case w.accepted.Audio && media.AudioFormat() != "" && media.Base64 != "":
		w.media++
		return message{"type": "input_audio", "input_audio": message{"data": media.Base64, "format": media.AudioFormat()}}
	case media.Type == "application/pdf" && media.Base64 != "" && w.accepted.PDFs:
		name := media.Filename
		if name == "" {
			name = "attachment.pdf"
		}
		w.media++
		return message{"type": "file", "file": message{"filename": name, "file_data": media.DataURL()}}
	case media.URL != "" && !media.IsImage():
		return textContent("[File at " + media.URL + "]")
	}
	return textContent(media.Placeholder())
}

// assistantMessage returns nil for a message without content, which servers refuse.
func (w *writer) assistantMessage(msg chat.Message) message {
	out := message{"role": "assistant", "content": nil}
	own := llm.FromSource(msg, w.source)
	if own {
		copyData(out, llm.ProviderData(msg.ProviderOptions, options), messageData)
	}
	var calls []message
	reasoning := map[string]string{}
	for _, p := range msg.Parts {
		switch p.Type {
		case chat.TypeReasoning:
			var field string
			if own && json.Unmarshal(llm.ProviderData(p.ProviderOptions, options)[reasoningField], &field) == nil {
				reasoning[field] += p.Text
			}
		case chat.TypeToolCall:
			if !isProviderExecuted(p) {
				calls = append(calls, w.toolCall(p, own))
			}
		}
	}
	text := msg.Text()
	if text == "" && len(calls) == 0 {
		return nil
	}
	if text != "" {
		out["content"] = text
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	}
	w.addReasoning(out, text, reasoning, len(calls) > 0)
	return out
}

// addReasoning sends reasoning back in the form that its provider wants.
func (w *writer) addReasoning(out message, text string, reasoning map[string]string, hasCalls bool) {
	if w.noReasoning {
		return
	}
	if thinking := reasoning[contentThinking]; thinking != "" { // Mistral
		content := []message{{"type": "thinking", "thinking": []message{textContent(thinking)}}}
		if text != "" {
			content = append(content, textContent(text))
		}
		out["content"] = content
	}
	for _, field := range []string{"reasoning_content", "reasoning"} {
		thinking, ok := reasoning[field]
		// Models that think between tool calls need their reasoning back. After the
		// final answer, the same models refuse or ignore it.
		if ok && (hasCalls || w.facts.AllReasoning) {
			out[field] = thinking
		}
	}
	if _, ok := out["reasoning_content"]; !ok && w.facts.AllReasoning {
		out["reasoning_content"] = ""
	}
}

func copyData(into message, data map[string]json.RawMessage, wanted []string) {
	for _, name := range wanted {
		if v, ok := data[name]; ok {
			into[name] = v
		}
	}
}

// callID returns the id of a call or a result in a form that the server accepts: the history
// may have ids of other providers.
func (w *writer) callID(p chat.Part) string {
	if w.facts.NineLetterIDs {
		return llm.NineLetterID(p.ToolCallID)
	}
	return llm.ShortID(p.ToolCallID, llm.MaxCallID)
}

func (w *writer) toolCall(p chat.Part, own bool) message {
	out := message{}
	if own {
		copyData(out, llm.ProviderData(p.ProviderOptions, options), callData)
	}
	out["id"], out["type"] = w.callID(p), "function"
	out["function"] = message{"name": llm.SafeToolName(p.ToolName), "arguments": string(llm.SafeToolInput(p))}
	return out
}

// toolOutput returns a result as text, and its media as content of a user message.
func (w *writer) toolOutput(p chat.Part) (text string, media []message) {
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
			content := w.mediaContent(llm.ParseResultMedia(part))
			if note, ok := content["text"].(string); ok {
				texts = append(texts, note)
				continue
			}
			media = append(media, content)
		}
		text = strings.Join(texts, "\n")
		if len(media) > 0 {
			media = append([]message{textContent("[Output of the tool " + p.ToolName + "]")}, media...)
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
