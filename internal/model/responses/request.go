package responses

import (
	"encoding/json"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

const (
	// options is the key of this package's data in provider options. Chat completions
	// use the same one, with other fields.
	options = "openai"
	// encryptedContent, itemID, and phase are the fields that the server wants back.
	encryptedContent = "encryptedContent"
	itemID           = "itemId"
	phase            = "phase"
)

// object is a JSON object with open fields.
type object map[string]any

// body encodes a request in the dialect that the facts describe, and lists what it sends.
func (e *encoder) body(req llm.Request, facts llm.Facts, change llm.Change) ([]byte, llm.Sent, error) {
	sent := llm.Sent{MaxOutputTokens: e.o.OutputLimit(req, facts, change)}
	w := writer{source: e.o.Source(), accepted: e.o.Accepted(facts), noReasoning: change.NoReasoning}
	body := object{"model": e.o.Model, "stream": true, "store": false, "include": []string{"reasoning.encrypted_content"}}
	items := w.input(req.Messages)
	body["input"] = items
	sent.Media, sent.Tools = w.media > 0, len(req.Tools) > 0
	if req.System != "" {
		body["instructions"] = req.System
	}
	if sent.MaxOutputTokens > 0 {
		body["max_output_tokens"] = sent.MaxOutputTokens
	}
	if req.Session != "" {
		body["prompt_cache_key"] = llm.ShortID(req.Session, llm.MaxCacheKey)
	}
	specs := tools(req.Tools, facts)
	if len(specs) > 0 {
		body["tools"] = specs
	}
	reasoning := e.tune(body, facts)
	for name, v := range e.o.Body {
		body[name] = v
	}
	groups := [][]object{{body, reasoning}, items, specs}
	sent.Fields = llm.ApplyFacts(facts, groups...)
	encoded, err := json.Marshal(body)
	return encoded, sent, err
}

// tune adds the options of the answer and returns those about reasoning.
func (e *encoder) tune(body object, facts llm.Facts) object {
	reasoning := object{"summary": "auto"}
	if e.o.Tuning.Effort != "" {
		reasoning["effort"] = e.o.Tuning.Effort
	}
	for name := range facts.Omit {
		delete(reasoning, name)
	}
	if len(reasoning) > 0 {
		body["reasoning"] = reasoning
	}
	llm.SetSampling(body, e.o.Tuning)
	return reasoning
}

func tools(specs []llm.ToolSpec, facts llm.Facts) []object {
	out := make([]object, len(specs))
	for i, t := range specs {
		out[i] = object{"type": "function", "name": t.Name, "description": t.Description, "parameters": facts.ToolSchema(t.Schema), "strict": false}
	}
	return out
}

// writer converts a conversation to input items.
type writer struct {
	source      string // see [llm.Options.Source]
	accepted    llm.Accepted
	noReasoning bool
	media       int // the number of images and documents written
}

func (w *writer) input(messages []chat.Message) []object {
	out := []object{}
	for _, msg := range messages {
		switch msg.Role {
		case chat.System:
			if text := msg.Text(); text != "" {
				out = append(out, object{"role": "developer", "content": []object{inputText(text)}})
			}
		case chat.User:
			if content := w.content(msg.Parts); len(content) > 0 {
				out = append(out, object{"role": "user", "content": content})
			}
		case chat.Assistant:
			out = append(out, w.assistantItems(msg)...)
		case chat.Tool:
			for _, p := range msg.ToolResults() {
				out = append(out, object{"type": "function_call_output", "call_id": llm.ShortID(p.ToolCallID, llm.MaxResponseID), "output": w.output(p)})
			}
		}
	}
	return out
}

// assistantItems returns the items of an answer in their order. A reasoning item must be
// followed by the item that it led to, so an answer that ends in reasoning loses it.
func (w *writer) assistantItems(msg chat.Message) []object {
	own := llm.FromSource(msg, w.source) && !w.noReasoning
	var out []object
	kept := 0 // the items up to the last one that is not reasoning
	for _, p := range msg.Parts {
		data := llm.ProviderData(p.ProviderOptions, options)
		switch {
		case p.Type == chat.TypeReasoning && own && len(data[encryptedContent]) > 0:
			item := object{"type": "reasoning", "summary": summary(p.Text), "encrypted_content": data[encryptedContent]}
			if id := data[itemID]; len(id) > 0 {
				item["id"] = id
			}
			out = append(out, item)
			continue
		case p.Type == chat.TypeText && p.Text != "":
			item := object{"type": "message", "role": "assistant", "content": []object{{"type": "output_text", "text": p.Text}}}
			if own && len(data[phase]) > 0 {
				item[phase] = data[phase]
			}
			out = append(out, item)
		case p.Type == chat.TypeToolCall && string(p.Extra["providerExecuted"]) != "true":
			out = append(out, object{"type": "function_call", "call_id": llm.ShortID(p.ToolCallID, llm.MaxResponseID), "name": llm.SafeToolName(p.ToolName), "arguments": string(llm.SafeToolInput(p))})
		default:
			continue
		}
		kept = len(out)
	}
	return out[:kept]
}

func summary(text string) []object {
	if text == "" {
		return []object{}
	}
	return []object{{"type": "summary_text", "text": text}}
}

func inputText(text string) object { return object{"type": "input_text", "text": text} }

func (w *writer) content(parts []chat.Part) []object {
	var out []object
	for _, p := range parts {
		switch p.Type {
		case chat.TypeText:
			if p.Text != "" {
				out = append(out, inputText(p.Text))
			}
		case chat.TypeImage, chat.TypeFile:
			out = append(out, w.mediaContent(llm.ParseMedia(p)))
		}
	}
	return out
}

func (w *writer) mediaContent(media llm.Media) object {
	text, isText := media.Text()
	switch {
	case media.IsImage() && w.accepted.Images && media.URL != "":
		w.media++
		return object{"type": "input_image", "image_url": media.URL}
	case media.IsImage() && w.accepted.Images && media.Base64 != "":
		w.media++
		return object{"type": "input_image", "image_url": media.DataURL()}
	case isText:
		return inputText(text)
	case media.Type == "application/pdf" && media.Base64 != "" && w.accepted.PDFs:
		name := media.Filename
		if name == "" {
			name = "attachment.pdf"
		}
		w.media++
		return object{"type": "input_file", "filename": name, "file_data": media.DataURL()}
	case media.URL != "" && !media.IsImage():
		return inputText("[File at " + media.URL + "]")
	}
	return inputText(media.Placeholder())
}

// output returns a tool's result: a string, or content if it has media.
func (w *writer) output(p chat.Part) any {
	text, failed := p.OutputText()
	var out struct {
		Type  string      `json:"type"`
		Value []chat.Part `json:"value"`
	}
	if json.Unmarshal(p.Output, &out) == nil && out.Type == "content" {
		content := []object{}
		for _, part := range out.Value {
			if part.Type == chat.TypeText {
				content = append(content, w.content([]chat.Part{part})...)
				continue
			}
			content = append(content, w.mediaContent(llm.ParseResultMedia(part)))
		}
		if len(content) > 0 {
			return content
		}
		text = ""
	}
	if failed && !strings.HasPrefix(strings.ToLower(text), "error") {
		text = "Error: " + text
	}
	if text == "" {
		text = "(no output)"
	}
	return text
}
