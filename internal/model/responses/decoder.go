package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// decoder builds an answer from the events of a stream.
type decoder struct {
	yield     func(llm.Chunk) bool
	abandoned bool // the caller has stopped reading
	begun     bool // a chunk was emitted
	finished  bool

	items      map[int]*item
	refused    bool
	incomplete string // why the answer is incomplete
	usage      chat.Usage
	model      string
}

// item is one output item. Its fields come from its last event.
type item struct {
	kind      string
	fields    map[string]json.RawMessage
	text      strings.Builder
	joiner    llm.Joiner
	announced bool
}

var errNoObject = errors.New("want an object")

func (d *decoder) emit(c llm.Chunk) {
	d.begun = true
	if !d.abandoned {
		d.abandoned = !d.yield(c)
	}
}

// event decodes the data of one event. It ignores events of unknown types. It returns a
// *llm.ProviderError that the event reports, or an error about the event itself.
func (d *decoder) event(data []byte) error {
	var e map[string]json.RawMessage
	if err := json.Unmarshal(data, &e); err != nil || e == nil {
		if refused := llm.ParseError(data); !refused.IsZero() {
			return &refused
		}
		if strings.Trim(string(data), "[] \n") == "DONE" {
			return nil
		}
		return fmt.Errorf("decode event: %w", cmp.Or(err, errNoObject))
	}
	index := integer(e["output_index"])
	switch kind := str(e["type"]); kind {
	case "response.output_item.added":
		return d.startItem(index, fieldsOf(e["item"]))
	case "response.output_item.done":
		return d.endItem(index, fieldsOf(e["item"]))
	case "response.output_text.delta", "response.refusal.delta":
		d.refused = d.refused || kind == "response.refusal.delta"
		return d.append(index, "message", llm.ChunkText, str(e["delta"]))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return d.append(index, "reasoning", llm.ChunkReasoning, str(e["delta"]))
	case "response.reasoning_summary_part.added":
		if it := d.items[index]; it != nil && it.text.Len() > 0 {
			return d.append(index, "reasoning", llm.ChunkReasoning, "\n\n")
		}
	case "response.function_call_arguments.delta":
		return d.append(index, "function_call", llm.ChunkToolInput, str(e["delta"]))
	case "response.completed", "response.incomplete", "response.done":
		return d.end(fieldsOf(e["response"]))
	case "response.failed":
		return responseError(fieldsOf(e["response"]))
	case "error":
		refused := llm.ParseError(data)
		return &refused
	default:
		if str(e["object"]) == "response" { // a server that ignores the request to stream
			return d.end(e)
		}
		if llm.HasError(e) {
			refused := llm.ParseError(data)
			return &refused
		}
	}
	return nil
}

func responseError(response map[string]json.RawMessage) error {
	encoded, _ := json.Marshal(map[string]json.RawMessage{"error": response["error"]}) // decoded JSON
	refused := llm.ParseError(encoded)
	refused.Message = cmp.Or(refused.Message, "The provider reports that the response failed.")
	return &refused
}

func (d *decoder) startItem(index int, fields map[string]json.RawMessage) error {
	if d.items[index] != nil {
		return nil
	}
	if len(d.items) >= llm.MaxParts {
		return fmt.Errorf("more than %d output items", llm.MaxParts)
	}
	it := &item{kind: str(fields["type"]), fields: fields}
	d.items[index] = it
	d.announce(it)
	return nil
}

func (d *decoder) announce(it *item) {
	if it.kind == "function_call" && !it.announced && it.callID() != "" && str(it.fields["name"]) != "" {
		it.announced = true
		d.emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: it.callID(), ToolName: str(it.fields["name"])})
	}
}

func (it *item) callID() string { return cmp.Or(str(it.fields["call_id"]), str(it.fields["id"])) }

// append adds a delta to an item, which it starts if the server did not.
func (d *decoder) append(index int, kind string, chunk llm.ChunkKind, delta string) error {
	if d.items[index] == nil {
		if err := d.startItem(index, map[string]json.RawMessage{"type": json.RawMessage(`"` + kind + `"`)}); err != nil {
			return err
		}
	}
	it := d.items[index]
	if delta = it.joiner.Add(delta); delta == "" {
		return nil
	}
	it.text.WriteString(delta)
	c := llm.Chunk{Kind: chunk, Text: delta}
	if chunk == llm.ChunkToolInput {
		c.ToolCallID, c.ToolName = it.callID(), str(it.fields["name"])
		if !it.announced {
			return nil
		}
	}
	d.emit(c)
	return nil
}

// endItem takes the final fields of an item and emits what its deltas did not have.
func (d *decoder) endItem(index int, fields map[string]json.RawMessage) error {
	if fields == nil {
		return nil
	}
	if err := d.startItem(index, fields); err != nil {
		return err
	}
	it := d.items[index]
	it.fields, it.kind = fields, cmp.Or(str(fields["type"]), it.kind)
	d.announce(it)
	chunk, final := llm.ChunkText, ""
	switch it.kind {
	case "message":
		final = contentText(fields["content"])
	case "reasoning":
		chunk, final = llm.ChunkReasoning, cmp.Or(contentText(fields["summary"]), contentText(fields["content"]))
	case "function_call":
		chunk, final = llm.ChunkToolInput, input(fields["arguments"])
	}
	if rest, ok := strings.CutPrefix(final, it.text.String()); ok && rest != "" {
		return d.append(index, it.kind, chunk, rest)
	}
	return nil
}

// end decodes the complete response.
func (d *decoder) end(response map[string]json.RawMessage) error {
	if str(response["status"]) == "failed" {
		return responseError(response)
	}
	var output []json.RawMessage
	_ = json.Unmarshal(response["output"], &output) // some servers leave it empty
	for i, raw := range output {
		if err := d.endItem(i, fieldsOf(raw)); err != nil {
			return err
		}
	}
	d.model = str(response["model"])
	if str(response["status"]) == "incomplete" {
		d.incomplete = cmp.Or(str(fieldsOf(response["incomplete_details"])["reason"]), "incomplete")
	}
	d.count(response["usage"])
	d.finished = true
	return nil
}

func (d *decoder) count(raw json.RawMessage) {
	var u struct {
		Input        llm.Count `json:"input_tokens"`
		Output       llm.Count `json:"output_tokens"`
		Total        llm.Count `json:"total_tokens"`
		InputDetails struct {
			Cached     llm.Count `json:"cached_tokens"`
			CacheWrite llm.Count `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		Cost json.RawMessage `json:"cost"`
	}
	_ = json.Unmarshal(raw, &u) // an answer must not fail because of its usage report
	if u.Input > 0 && u.Total > 0 {
		u.Output = max(u.Output, u.Total-u.Input)
	}
	d.usage = chat.Usage{
		InputTokens: int64(u.Input), OutputTokens: int64(u.Output), CacheReadTokens: int64(u.InputDetails.Cached),
		CacheWriteTokens: int64(u.InputDetails.CacheWrite), CostMicros: llm.CostMicros(u.Cost),
	}
}

// done returns the last chunk.
func (d *decoder) done(source string) llm.Chunk {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	for _, index := range slices.Sorted(maps.Keys(d.items)) {
		it := d.items[index]
		it.text.WriteString(it.joiner.Flush())
		if p, ok := it.part(index); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	if slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return len(p.ProviderOptions) > 0 }) {
		m = llm.WithSource(m, source, "")
	}
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: d.usage, Stop: d.stop(m), Model: d.model}
}

func (it *item) part(index int) (p chat.Part, ok bool) {
	kept := map[string]json.RawMessage{}
	keep := func(name string, v json.RawMessage) {
		if len(v) > 0 && string(v) != "null" {
			kept[name] = v
		}
	}
	switch it.kind {
	case "message":
		keep(phase, it.fields["phase"])
		p, ok = chat.TextPart(it.text.String()), it.text.Len() > 0
	case "reasoning":
		keep(encryptedContent, it.fields["encrypted_content"])
		p, ok = chat.Part{Type: chat.TypeReasoning, Text: it.text.String()}, it.text.Len() > 0 || len(kept) > 0
	case "function_call":
		id := cmp.Or(it.callID(), fmt.Sprintf("call_%d", index))
		p, ok = llm.NewToolCall(id, cmp.Or(str(it.fields["name"]), "unnamed"), it.text.String()), true
	}
	p.ProviderOptions = llm.AddProviderData(p.ProviderOptions, options, kept)
	return p, ok
}

func (d *decoder) stop(m chat.Message) llm.StopReason {
	switch {
	case d.incomplete == "max_output_tokens" || d.incomplete == "max_tokens":
		return llm.StopLength
	case d.refused || d.incomplete == "content_filter":
		return llm.StopRefusal
	case d.incomplete != "":
		return llm.StopOther
	case len(m.ToolCalls()) > 0:
		return llm.StopTools
	}
	return llm.StopEnd
}

// contentText joins the texts of a list of contents, or returns a string.
func contentText(raw json.RawMessage) string {
	var parts []map[string]json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return str(raw)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, cmp.Or(str(p["text"]), str(p["refusal"])))
	}
	if len(parts) > 0 && str(parts[0]["type"]) == "summary_text" {
		return strings.Join(texts, "\n\n")
	}
	return strings.Join(texts, "")
}

// input returns arguments as JSON text. Some servers send the object itself.
func input(raw json.RawMessage) string {
	if s, ok := llm.DecodeString(raw); ok || string(raw) == "null" {
		return s
	}
	return string(raw)
}

func str(raw json.RawMessage) string {
	s, _ := llm.DecodeString(raw) // empty if it is not a string
	return s
}

func fieldsOf(raw json.RawMessage) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &fields) // nil if it is not an object
	return fields
}

func integer(raw json.RawMessage) (n int) {
	_ = json.Unmarshal(bytes.Trim(raw, `"`), &n) // 0 if it is not a number
	return n
}
