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

// wireUsage is cumulative: later events replace the counts of earlier ones.
type wireUsage struct {
	Input      *llm.Count `json:"input_tokens"`
	Output     *llm.Count `json:"output_tokens"`
	CacheRead  *llm.Count `json:"cache_read_input_tokens"`
	CacheWrite *llm.Count `json:"cache_creation_input_tokens"`
}

// merge updates the counts that raw holds and ignores everything it can't decode: an
// answer must not fail because of its usage report.
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
		// The protocol reports cached tokens separately; chat.Usage includes them in
		// the input.
		InputTokens:  n(u.Input) + n(u.CacheRead) + n(u.CacheWrite),
		OutputTokens: n(u.Output), CacheReadTokens: n(u.CacheRead), CacheWriteTokens: n(u.CacheWrite),
	}
}

// decoder builds an answer from the events of a stream.
type decoder struct {
	yield      func(llm.Chunk) bool
	abandoned  bool // the caller has stopped reading
	blocks     map[int]*block
	usage      wireUsage
	model      string
	stopReason string
	finished   bool
}

// block is one content block. fields holds its start event; the streamed fields are
// collected separately.
type block struct {
	kind      string
	fields    map[string]json.RawMessage
	text      strings.Builder // of text and thinking
	input     strings.Builder // of a tool
	signature strings.Builder
	citations []json.RawMessage
}

func (b *block) stringField(name string) (s string) {
	_ = json.Unmarshal(b.fields[name], &s) // empty if it is not a string
	return s
}

func (a *decoder) emit(c llm.Chunk) {
	if !a.abandoned {
		a.abandoned = !a.yield(c)
	}
}

func (a *decoder) startBlock(index int, fields map[string]json.RawMessage) error {
	if len(a.blocks) >= llm.MaxParts {
		return fmt.Errorf("more than %d content blocks", llm.MaxParts)
	}
	if fields == nil {
		return fmt.Errorf("content block %d is missing", index)
	}
	b := &block{fields: fields}
	b.kind = b.stringField("type")
	a.blocks[index] = b
	switch b.kind {
	case "text":
		a.appendText(b, llm.ChunkText, b.stringField("text"))
	case "thinking":
		a.appendText(b, llm.ChunkReasoning, b.stringField("thinking"))
		b.signature.WriteString(b.stringField("signature"))
	case "tool_use":
		if b.stringField("id") == "" || b.stringField("name") == "" {
			return fmt.Errorf("tool use %d has no id or no name", index)
		}
		if raw := string(fields["input"]); raw != "" && raw != "{}" && raw != "null" {
			b.input.WriteString(raw)
		}
		a.emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: b.stringField("id"), ToolName: b.stringField("name")})
	}
	return nil
}

func (a *decoder) appendText(b *block, kind llm.ChunkKind, s string) {
	if s != "" {
		b.text.WriteString(s)
		a.emit(llm.Chunk{Kind: kind, Text: s})
	}
}

func (a *decoder) applyDelta(index int, raw json.RawMessage) error {
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
		a.appendText(b, llm.ChunkText, d.Text)
	case "thinking_delta":
		a.appendText(b, llm.ChunkReasoning, d.Thinking)
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
			a.emit(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: b.stringField("id"), ToolName: b.stringField("name"), Text: d.PartialJSON})
		}
	}
	return nil
}

// done returns the last chunk.
func (a *decoder) done() llm.Chunk {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	for _, index := range slices.Sorted(maps.Keys(a.blocks)) {
		if p, ok := a.blocks[index].part(); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: a.usage.usage(), Stop: a.stopReasonOf(m), Model: a.model}
}

func (a *decoder) stopReasonOf(m chat.Message) llm.StopReason {
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

// part converts a finished block. It returns false for empty text.
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
		p = llm.NewToolCall(b.stringField("id"), b.stringField("name"), b.input.String())
	default:
		return b.custom(), true
	}
	p.ProviderOptions = llm.AddProviderData(p.ProviderOptions, provider, kept)
	return p, p.Type != chat.TypeText || p.Text != ""
}

// streamed lists the fields of each block type that have a place of their own in the
// part.
var streamed = map[string][]string{
	"text":              {"text"},
	"thinking":          {"thinking", "signature"},
	"redacted_thinking": {"data"},
	"tool_use":          {"id", "name", "input"},
}

// custom returns a part that preserves a block of an unknown type, including its deltas.
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

// encode encodes strings and decoded JSON, which cannot fail.
func encode(v any) json.RawMessage {
	out, _ := json.Marshal(v)
	return out
}
