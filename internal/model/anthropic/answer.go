package anthropic

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

type wireEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string          `json:"model"`
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	ContentBlock map[string]json.RawMessage `json:"content_block"`
	Delta        json.RawMessage            `json:"delta"`
	Usage        json.RawMessage            `json:"usage"`
}

// wireUsage is cumulative: what a later event says replaces what an earlier
// one said.
type wireUsage struct {
	Input      *llm.Count `json:"input_tokens"`
	Output     *llm.Count `json:"output_tokens"`
	CacheRead  *llm.Count `json:"cache_read_input_tokens"`
	CacheWrite *llm.Count `json:"cache_creation_input_tokens"`
}

// merge takes what can be read of a usage: the answer is not given up for the rest.
func (u *wireUsage) merge(raw json.RawMessage) {
	var v wireUsage
	_ = json.Unmarshal(raw, &v)
	for into, from := range map[**llm.Count]*llm.Count{
		&u.Input: v.Input, &u.Output: v.Output, &u.CacheRead: v.CacheRead, &u.CacheWrite: v.CacheWrite,
	} {
		if from != nil {
			*into = from
		}
	}
}

func (u wireUsage) usage() chat.Usage {
	n := func(p *llm.Count) int64 {
		if p == nil {
			return 0
		}
		return int64(*p)
	}
	return chat.Usage{
		// The protocol counts cached tokens beside the input, we within it.
		InputTokens:  n(u.Input) + n(u.CacheRead) + n(u.CacheWrite),
		OutputTokens: n(u.Output), CacheReadTokens: n(u.CacheRead), CacheWriteTokens: n(u.CacheWrite),
	}
}

// answer collects what a stream says.
type answer struct {
	yield      func(llm.Chunk) bool
	left       bool // the reader does not want more
	blocks     map[int]*block
	usage      wireUsage
	model      string
	stopReason string
	stopped    bool
}

// block is one content block. fields are as the server sent them, without
// those that are streamed.
type block struct {
	kind      string
	fields    map[string]json.RawMessage
	text      strings.Builder // of text and thinking
	input     strings.Builder // of a tool
	signature strings.Builder
	citations []json.RawMessage
}

func (b *block) str(name string) (s string) {
	_ = json.Unmarshal(b.fields[name], &s) // what is no string is not there
	return s
}

func (a *answer) hand(c llm.Chunk) {
	if !a.left {
		a.left = !a.yield(c)
	}
}

func (a *answer) start(index int, fields map[string]json.RawMessage) error {
	if len(a.blocks) >= llm.MaxParts {
		return fmt.Errorf("more than %d content blocks", llm.MaxParts)
	}
	if fields == nil {
		return fmt.Errorf("content block %d is missing", index)
	}
	b := &block{fields: fields}
	b.kind = b.str("type")
	a.blocks[index] = b
	switch b.kind {
	case "text":
		a.say(b, llm.ChunkText, b.str("text"))
	case "thinking":
		a.say(b, llm.ChunkReasoning, b.str("thinking"))
		b.signature.WriteString(b.str("signature"))
	case "tool_use":
		if b.str("id") == "" || b.str("name") == "" {
			return fmt.Errorf("tool use %d has no id or no name", index)
		}
		if raw := string(fields["input"]); raw != "" && raw != "{}" && raw != "null" {
			b.input.WriteString(raw)
		}
		a.hand(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: b.str("id"), ToolName: b.str("name")})
	}
	return nil
}

func (a *answer) say(b *block, kind llm.ChunkKind, s string) {
	if s != "" {
		b.text.WriteString(s)
		a.hand(llm.Chunk{Kind: kind, Text: s})
	}
}

func (a *answer) delta(index int, raw json.RawMessage) error {
	b := a.blocks[index]
	if b == nil {
		return fmt.Errorf("there is no block %d", index)
	}
	var d struct {
		Type        string          `json:"type"`
		Text        string          `json:"text"`
		Thinking    string          `json:"thinking"`
		Signature   string          `json:"signature"`
		PartialJSON string          `json:"partial_json"`
		Citation    json.RawMessage `json:"citation"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	switch d.Type {
	case "text_delta":
		a.say(b, llm.ChunkText, d.Text)
	case "thinking_delta":
		a.say(b, llm.ChunkReasoning, d.Thinking)
	case "signature_delta":
		b.signature.WriteString(d.Signature)
	case "citations_delta":
		b.citations = append(b.citations, d.Citation)
	case "input_json_delta":
		if d.PartialJSON == "" {
			return nil
		}
		b.input.WriteString(d.PartialJSON)
		if b.kind == "tool_use" {
			a.hand(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: b.str("id"), ToolName: b.str("name"), Text: d.PartialJSON})
		}
	}
	return nil
}

// done is the last chunk.
func (a *answer) done() llm.Chunk {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	for _, index := range slices.Sorted(maps.Keys(a.blocks)) {
		if p, ok := a.blocks[index].part(); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: a.usage.usage(), Stop: a.stop(m), Model: a.model}
}

func (a *answer) stop(m chat.Message) llm.StopReason {
	switch a.stopReason {
	case "tool_use":
		return llm.StopTools
	case "end_turn", "stop_sequence", "":
		if len(m.ToolCalls()) > 0 {
			return llm.StopTools
		}
		return llm.StopEnd
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopLength
	case "refusal":
		return llm.StopRefusal
	}
	return llm.StopOther
}

// part turns a finished block into a part; an empty text is none.
func (b *block) part() (chat.Part, bool) {
	kept := map[string]json.RawMessage{}
	known := map[string]bool{"type": true}
	for _, name := range streamed[b.kind] {
		known[name] = true
	}
	for name, v := range b.fields {
		if !known[name] && string(v) != "null" {
			kept[name] = v
		}
	}
	var p chat.Part
	switch b.kind {
	case "text":
		if len(b.citations) > 0 {
			kept["citations"] = encode(b.citations)
		}
		p = chat.TextPart(b.text.String())
	case "thinking":
		if b.signature.Len() > 0 {
			kept["signature"] = encode(b.signature.String())
		}
		p = chat.Part{Type: chat.TypeReasoning, Text: b.text.String()}
	case "redacted_thinking":
		kept["redactedData"] = b.fields["data"]
		p = chat.Part{Type: chat.TypeReasoning}
	case "tool_use":
		p = llm.FinishToolCall(b.str("id"), b.str("name"), b.input.String())
	default:
		return b.custom(), true
	}
	p.ProviderOptions = llm.AddProviderData(p.ProviderOptions, provider, kept)
	return p, p.Type != chat.TypeText || p.Text != ""
}

// streamed names the fields of a block that its part holds in its own fields.
var streamed = map[string][]string{
	"text":              {"text"},
	"thinking":          {"thinking", "signature"},
	"redacted_thinking": {"data"},
	"tool_use":          {"id", "name", "input"},
}

// custom keeps a block of a type that this package does not know, completed
// by the deltas that it got.
func (b *block) custom() chat.Part {
	fields := maps.Clone(b.fields)
	if b.text.Len() > 0 {
		fields["text"] = encode(b.text.String())
	}
	if input := b.input.String(); json.Valid([]byte(input)) {
		fields["input"] = json.RawMessage(input)
	}
	return chat.Part{
		Type:            typeCustom,
		Extra:           map[string]json.RawMessage{"kind": encode(provider + "." + b.kind)},
		ProviderOptions: llm.ProviderOptions(provider, map[string]json.RawMessage{"block": encode(fields)}),
	}
}

// encode writes strings and what came out of a decoder, which cannot fail.
func encode(v any) json.RawMessage {
	out, _ := json.Marshal(v)
	return out
}
