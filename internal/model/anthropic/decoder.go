package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/order"
	"lilac/internal/model/llm"
)

// wireUsage is cumulative: later events replace the counts of earlier ones.
type wireUsage struct {
	Cost       json.RawMessage `json:"cost"` // US dollars, from gateways
	Input      *llm.Count      `json:"input_tokens"`
	Output     *llm.Count      `json:"output_tokens"`
	CacheRead  *llm.Count      `json:"cache_read_input_tokens"`
	CacheWrite *llm.Count      `json:"cache_creation_input_tokens"`
}

// merge updates the counts that raw holds and ignores everything it can't decode: an
// answer must not fail because of its usage report.
func (u *wireUsage) merge(raw json.RawMessage) {
	var v wireUsage
	_ = json.Unmarshal(raw, &v)
	if len(v.Cost) > 0 {
		u.Cost = v.Cost
	}
	for into, from := range map[**llm.Count]*llm.Count{
		&u.Input: v.Input, &u.Output: v.Output, &u.CacheRead: v.CacheRead, &u.CacheWrite: v.CacheWrite,
	} {
		if from != nil && (*from > 0 || *into == nil) { // some servers end with zeros
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
		CostMicros:   llm.CostMicros(u.Cost),
		OutputTokens: n(u.Output), CacheReadTokens: n(u.CacheRead), CacheWriteTokens: n(u.CacheWrite),
	}
}

// decoder builds an answer from the events of a stream.
type decoder struct {
	out        *llm.Output
	source     string // see [llm.Options.Source]
	prefix     string // the hash of the conversation
	blocks     []*block
	usage      wireUsage
	model      string
	stopReason string
	finished   bool
}

// block is one content block. fields holds its start event; the streamed fields are
// collected separately.
type block struct {
	index     int // some servers send the same one for all
	kind      string
	fields    map[string]json.RawMessage
	text      strings.Builder // of text and thinking
	joiner    llm.Joiner      // of text, thinking, or input
	given     string          // the input of a tool in the start event
	input     strings.Builder // its input in deltas, which wins
	signature strings.Builder
	citations []json.RawMessage
}

func (b *block) stringField(name string) (s string) {
	s, _ = llm.DecodeString(b.fields[name]) // empty if it is not a string
	return s
}

// Event implements [llm.Decoder].
func (d *decoder) Event(data []byte) error {
	err := d.event(data)
	if err != nil {
		d.stopReason = "" // the answer may be incomplete
	}
	return err
}

// Closed implements [llm.Decoder].
func (d *decoder) Closed() bool { return d.finished }

// End implements [llm.Decoder]. Some servers end with the stop reason.
func (d *decoder) End(err error) (complete bool, _ error) {
	return d.stopReason != "" || err == nil && d.finished, err
}

// event decodes the data of one event. As the protocol requires, it ignores events of
// other types, such as ping and future ones.
func (d *decoder) event(data []byte) error {
	if llm.IsKeepAlive(data) {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		if strings.Trim(string(data), "[] \n") == "DONE" { // gateways translate streams
			d.finished = d.stopReason != ""
			return nil
		}
		return llm.UndecodedEvent(data, err)
	}
	var position float64
	_ = json.Unmarshal(bytes.Trim(fields["index"], `"`), &position) // 0 if it is not a number
	index := int(min(max(position, 0), math.MaxInt32))
	switch kindOf(fields) {
	case "message_start":
		message := fieldsOf(fields["message"])
		d.model, _ = llm.DecodeString(message["model"])
		d.usage.merge(message["usage"])
	case "content_block_start":
		return d.startBlock(index, fieldsOf(fields["content_block"]))
	case "content_block_delta":
		return d.applyDelta(index, fieldsOf(fields["delta"]))
	case "message_delta":
		d.usage.merge(fields["usage"])
		return d.setStop(fieldsOf(fields["delta"]))
	case "message_stop":
		d.finished = true
	case "message":
		return d.wholeMessage(fields)
	default:
		if llm.HasError(fields) {
			refused := llm.ParseError(data)
			return &refused
		}
	}
	return nil
}

// kindOf returns the type of an event, also if only the line before its data named it.
func kindOf(fields map[string]json.RawMessage) string {
	kind, _ := llm.DecodeString(fields["type"])
	delta := fieldsOf(fields["delta"])
	switch {
	case kind != "":
		return kind
	case fields["content_block"] != nil:
		return "content_block_start"
	case delta["stop_reason"] != nil:
		return "message_delta"
	case delta != nil:
		return "content_block_delta"
	case fieldsOf(fields["message"]) != nil:
		return "message_start"
	}
	return ""
}

// wholeMessage decodes the response of a server that ignores the request to stream.
func (d *decoder) wholeMessage(fields map[string]json.RawMessage) error {
	var blocks []map[string]json.RawMessage
	if text, ok := llm.DecodeString(fields["content"]); ok {
		blocks = []map[string]json.RawMessage{{"type": encode("text"), "text": encode(text)}}
	} else if err := json.Unmarshal(fields["content"], &blocks); err != nil {
		return fmt.Errorf("decode content: %w", err)
	}
	for i, b := range blocks {
		if err := d.startBlock(i, b); err != nil {
			return err
		}
	}
	d.model, _ = llm.DecodeString(fields["model"])
	d.usage.merge(fields["usage"])
	d.finished = true
	return d.setStop(fields)
}

// setStop records why the answer ended. Some gateways report an error so.
func (d *decoder) setStop(fields map[string]json.RawMessage) error {
	reason, _ := llm.DecodeString(fields["stop_reason"])
	switch reason {
	case "":
		return nil
	case "error", "network_error", "abort", "aborted", "cancelled":
		return &llm.ProviderError{Message: "The provider ended the answer with the reason \"" + reason + "\"."}
	}
	d.stopReason = reason
	return nil
}

func (d *decoder) startBlock(index int, fields map[string]json.RawMessage) error {
	if len(d.blocks) >= llm.MaxParts {
		return fmt.Errorf("more than %d content blocks", llm.MaxParts)
	}
	if fields == nil { // its deltas start it
		return nil
	}
	b := &block{index: index, fields: fields}
	b.kind = b.stringField("type")
	if open := d.block(index); open != nil && b.kind == "tool_use" && open.kind == b.kind && b.stringField("id") != "" && open.stringField("id") == b.stringField("id") {
		return nil // the start is repeated
	}
	d.blocks = append(d.blocks, b)
	switch b.kind {
	case "text":
		d.appendText(b, llm.ChunkText, b.stringField("text"))
	case "thinking":
		d.appendText(b, llm.ChunkReasoning, b.stringField("thinking"))
		b.signature.WriteString(b.stringField("signature"))
	case "tool_use":
		if b.stringField("name") == "" {
			b.fields["name"] = encode(unnamed)
		}
		if b.stringField("id") == "" {
			b.fields["id"] = encode(fmt.Sprintf("toolu_%d", len(d.blocks)-1))
		}
		if raw := inputPiece(fields["input"]); raw != "{}" {
			b.given = raw
		}
		d.out.Emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: b.stringField("id"), ToolName: b.stringField("name")})
	}
	return nil
}

// unnamed is the name of a call for which the server sent none. The agent reports to the
// model that there is no such tool.
const unnamed = "unnamed"

// block returns the last block with an index, or nil.
func (d *decoder) block(index int) *block {
	for _, b := range slices.Backward(d.blocks) {
		if b.index == index {
			return b
		}
	}
	return nil
}

// deltaKinds lists the kinds of blocks that a delta can belong to, the usual one first.
var deltaKinds = map[string][]string{
	"text_delta":       {"text"},
	"thinking_delta":   {"thinking"},
	"signature_delta":  {"thinking"},
	"citations_delta":  {"text"},
	"input_json_delta": {"tool_use"},
}

// blockOf returns the block of a delta: the one with its index, the last one of the right kind
// if the server counts in its own way, or a new one if it announces none.
func (d *decoder) blockOf(index int, kind string) (*block, error) {
	kinds := deltaKinds[kind]
	b := d.block(index)
	if b != nil && (kinds == nil || slices.Contains(kinds, b.kind) || streamed[b.kind] == nil) {
		return b, nil
	}
	if kinds == nil {
		return nil, nil
	}
	for _, b := range slices.Backward(d.blocks) {
		if slices.Contains(kinds, b.kind) {
			return b, nil
		}
	}
	if kinds[0] == "tool_use" {
		return nil, fmt.Errorf("there is no block %d", index)
	}
	err := d.startBlock(index, map[string]json.RawMessage{"type": encode(kinds[0])})
	return d.block(index), err
}

func (d *decoder) appendText(b *block, kind llm.ChunkKind, s string) {
	if s = b.joiner.Add(s); s != "" {
		b.text.WriteString(s)
		d.out.Emit(llm.Chunk{Kind: kind, Text: s})
	}
}

func (d *decoder) applyDelta(index int, delta map[string]json.RawMessage) error {
	str := func(name string) string { s, _ := llm.DecodeString(delta[name]); return s }
	b, err := d.blockOf(index, str("type"))
	if err != nil || b == nil {
		return err
	}
	switch str("type") {
	case "text_delta":
		d.appendText(b, llm.ChunkText, str("text"))
	case "thinking_delta":
		d.appendText(b, llm.ChunkReasoning, str("thinking"))
	case "signature_delta":
		b.signature.WriteString(str("signature"))
	case "citations_delta":
		b.citations = append(b.citations, delta["citation"])
	case "input_json_delta":
		piece := b.joiner.Add(inputPiece(delta["partial_json"]))
		if piece == "" {
			return nil
		}
		b.input.WriteString(piece)
		if b.kind == "tool_use" {
			d.out.Emit(llm.Chunk{Kind: llm.ChunkToolInput, ToolCallID: b.stringField("id"), ToolName: b.stringField("name"), Text: piece})
		}
	}
	return nil
}

// inputPiece returns a piece of a tool's input. Some servers send the object itself.
func inputPiece(raw json.RawMessage) string {
	if s, ok := llm.DecodeString(raw); ok || string(raw) == "null" {
		return s
	}
	return string(raw)
}

func fieldsOf(raw json.RawMessage) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &fields) // nil if it is not an object
	return fields
}

// Done implements [llm.Decoder].
func (d *decoder) Done() llm.Chunk {
	d.flush()
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	order.By(d.blocks, func(a, b *block) int { return a.index - b.index })
	for _, b := range d.blocks {
		if p, ok := b.part(); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	if slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return len(p.ProviderOptions) > 0 }) {
		m = llm.WithSource(m, d.source, d.prefix)
	}
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: d.usage.usage(), Stop: d.stopReasonOf(m), Model: d.model}
}

// flush emits halves of characters whose other half never came.
func (d *decoder) flush() {
	for _, b := range d.blocks {
		rest := b.joiner.Flush()
		switch {
		case rest == "":
		case b.kind == "tool_use":
			b.input.WriteString(rest)
		case b.kind == "thinking":
			b.text.WriteString(rest)
			d.out.Emit(llm.Chunk{Kind: llm.ChunkReasoning, Text: rest})
		default:
			b.text.WriteString(rest)
			d.out.Emit(llm.Chunk{Kind: llm.ChunkText, Text: rest})
		}
	}
}

func (d *decoder) stopReasonOf(m chat.Message) llm.StopReason {
	switch d.stopReason {
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
		p = llm.NewToolCall(b.stringField("id"), b.stringField("name"), b.wholeInput())
	default:
		return b.custom(), true
	}
	p.ProviderOptions = llm.AddProviderData(p.ProviderOptions, provider, kept)
	return p, p.Type != chat.TypeText || p.Text != ""
}

// wholeInput returns the input of a tool.
func (b *block) wholeInput() string {
	if strings.TrimSpace(b.input.String()) == "" {
		return b.given
	}
	return b.input.String()
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
	if input := b.wholeInput(); json.Valid([]byte(input)) {
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
