package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// wireChunk is one event of the stream.
type wireChunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Index        int                        `json:"index"`
		Delta        map[string]json.RawMessage `json:"delta"`
		FinishReason string                     `json:"finish_reason"`
	} `json:"choices"`
	Usage json.RawMessage `json:"usage"`
	// XGroq is where Groq puts the usage.
	XGroq struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
	Error json.RawMessage `json:"error"`
}

type wireUsage struct {
	PromptTokens     llm.Count `json:"prompt_tokens"`
	CompletionTokens llm.Count `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens     llm.Count `json:"cached_tokens"`
		CacheWriteTokens llm.Count `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// decoder collects what a stream says.
type decoder struct {
	yield     func(llm.Chunk) bool
	abandoned bool // the caller has stopped reading

	seed       []byte // what ids are made from
	text       strings.Builder
	reasoning  strings.Builder
	field      string // the field that the reasoning came in
	refused    bool
	calls      []*call
	unknown    map[string]json.RawMessage
	usage      chat.Usage
	model      string
	finish     string
	terminated bool
}

type call struct {
	index     int
	id, name  string
	arguments strings.Builder
	announced bool
	unknown   map[string]json.RawMessage
}

func newDecoder(body []byte, yield func(llm.Chunk) bool) *decoder {
	seed := sha256.Sum256(body)
	return &decoder{seed: seed[:], yield: yield, unknown: map[string]json.RawMessage{}}
}

func (a *decoder) emit(c llm.Chunk) {
	if !a.abandoned {
		a.abandoned = !a.yield(c)
	}
}

func isReasoning(field string) bool { return field == "reasoning_content" || field == "reasoning" }

func (a *decoder) chunk(c wireChunk) error {
	a.model = cmp.Or(c.Model, a.model)
	a.count(c.Usage)
	a.count(c.XGroq.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
	}
	return nil
}

// count takes what can be read of a usage: the answer is not given up for the rest.
func (a *decoder) count(raw json.RawMessage) {
	var u *wireUsage
	_ = json.Unmarshal(raw, &u)
	if u != nil {
		a.usage = chat.Usage{
			InputTokens: int64(u.PromptTokens), OutputTokens: int64(u.CompletionTokens),
			CacheReadTokens: int64(u.PromptDetails.CachedTokens), CacheWriteTokens: int64(u.PromptDetails.CacheWriteTokens),
		}
	}
}

func (a *decoder) delta(d map[string]json.RawMessage) error {
	// Reasoning comes before the text of the same delta, and a server that
	// sends it under both names sends it once.
	for _, field := range []string{"reasoning_content", "reasoning"} {
		var s string
		if json.Unmarshal(d[field], &s) == nil && s != "" && (a.field == "" || a.field == field) {
			a.field = field
			a.reasoning.WriteString(s)
			a.emit(llm.Chunk{Kind: llm.ChunkReasoning, Text: s})
		}
	}
	for _, field := range []string{"content", "refusal"} {
		s, err := textOf(d[field])
		if err != nil {
			return fmt.Errorf("decode %s: %w", field, err)
		}
		a.refused = a.refused || s != "" && field == "refusal"
		a.appendText(s)
	}
	if raw := d["tool_calls"]; len(raw) > 0 {
		var calls []map[string]json.RawMessage
		if err := json.Unmarshal(raw, &calls); err != nil {
			return fmt.Errorf("decode tool_calls: %w", err)
		}
		for _, c := range calls {
			if err := a.toolCall(c); err != nil {
				return err
			}
		}
	}
	for name, v := range d {
		switch name {
		case "role", "content", "refusal", "tool_calls", "reasoning", "reasoning_content", "function_call":
		default:
			mergeField(a.unknown, name, v)
		}
	}
	return nil
}

func (a *decoder) appendText(text string) {
	if text != "" {
		a.text.WriteString(text)
		a.emit(llm.Chunk{Kind: llm.ChunkText, Text: text})
	}
}

// textOf reads a content that is a string, null, or (from some servers) a
// list of text parts.
func textOf(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var s *string
	err := json.Unmarshal(raw, &s)
	if err == nil && s != nil {
		return *s, nil
	}
	if err == nil {
		return "", nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String(), nil
}

func (a *decoder) toolCall(d map[string]json.RawMessage) error {
	var index *int
	var id, name, arguments string
	var function map[string]json.RawMessage
	for field, into := range map[string]any{"index": &index, "id": &id, "function": &function} {
		if raw := d[field]; len(raw) > 0 {
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("decode %s of a tool call: %w", field, err)
			}
		}
	}
	_ = json.Unmarshal(function["name"], &name) // absent and null in later pieces
	if raw := function["arguments"]; len(raw) > 0 && json.Unmarshal(raw, &arguments) != nil {
		arguments = string(raw) // some servers send the object itself
	}
	c := a.find(index, id, name)
	if c == nil {
		if len(a.calls) >= llm.MaxParts {
			return fmt.Errorf("more than %d tool calls in one answer", llm.MaxParts)
		}
		c = &call{index: len(a.calls), unknown: map[string]json.RawMessage{}}
		if index != nil {
			c.index = *index
		}
		c.id = a.uniqueID(id, name)
		a.calls = append(a.calls, c)
	}
	if !c.announced {
		c.name += name
	}
	c.arguments.WriteString(arguments)
	for field, v := range d {
		switch field {
		case "index", "id", "type":
		case "function":
			rest := map[string]json.RawMessage{}
			for f, v := range function {
				if f != "name" && f != "arguments" {
					rest[f] = v
				}
			}
			if len(rest) > 0 {
				v, err := json.Marshal(rest)
				if err != nil {
					return fmt.Errorf("keep fields of a function: %w", err)
				}
				mergeField(c.unknown, "function", v)
			}
		default:
			mergeField(c.unknown, field, v)
		}
	}
	if !c.announced && c.name != "" {
		c.announced = true
		a.emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: c.id, ToolName: c.name})
		arguments = c.arguments.String()
	}
	if c.announced && arguments != "" {
		a.emit(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: c.id, ToolName: c.name, Text: arguments})
	}
	return nil
}

// find returns the call that a piece belongs to, nil for a new one. The index
// says it; servers that send none, or always 0, start a call with a new id
// and a name.
func (a *decoder) find(index *int, id, name string) *call {
	for i := len(a.calls) - 1; i >= 0; i-- {
		c := a.calls[i]
		if index != nil && c.index != *index {
			continue
		}
		if id != "" && id != c.id && name != "" && c.announced {
			return nil
		}
		if index == nil && id == "" && name != "" && c.announced {
			return nil // whole calls, one after the other, without any id
		}
		return c
	}
	return nil
}

func (a *decoder) uniqueID(id, name string) string {
	taken := func(id string) bool {
		for _, c := range a.calls {
			if c.id == id {
				return true
			}
		}
		return false
	}
	if id != "" && !taken(id) {
		return id
	}
	h := sha256.New()
	h.Write(a.seed)
	fmt.Fprintf(h, "%d\x00%s\x00%s", len(a.calls), id, name)
	return "call_" + hex.EncodeToString(h.Sum(nil)[:12])
}

// done is the last chunk.
func (a *decoder) done() (llm.Chunk, error) {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	if a.reasoning.Len() > 0 {
		field, _ := json.Marshal(a.field) // strings always marshal
		m.Parts = append(m.Parts, chat.Part{
			Type: chat.TypeReasoning, Text: a.reasoning.String(),
			ProviderOptions: llm.ProviderOptions(options, map[string]json.RawMessage{reasoningField: field}),
		})
	}
	if a.text.Len() > 0 {
		m.Parts = append(m.Parts, chat.TextPart(a.text.String()))
	}
	for _, c := range a.calls {
		if !c.announced {
			return llm.Chunk{}, fmt.Errorf("tool call %s has no name", c.id)
		}
		p := llm.NewToolCall(c.id, c.name, c.arguments.String())
		p.ProviderOptions = llm.AddProviderData(p.ProviderOptions, options, c.unknown)
		m.Parts = append(m.Parts, p)
	}
	m.ProviderOptions = llm.ProviderOptions(options, a.unknown)
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: a.usage, Stop: a.stop(), Model: a.model}, nil
}

func (a *decoder) stop() llm.StopReason {
	switch {
	case a.refused || a.finish == "content_filter":
		return llm.StopRefusal
	case a.finish == "length":
		return llm.StopLength
	case len(a.calls) > 0: // several servers say "stop" after tool calls
		return llm.StopTools
	case a.finish == "stop" || a.finish == "":
		return llm.StopEnd
	}
	return llm.StopOther
}
