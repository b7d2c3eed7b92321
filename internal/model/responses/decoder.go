package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/order"
	"lilac/internal/model/llm"
)

// decoder builds an answer from the events of a stream.
type decoder struct {
	out      *llm.Output
	source   string // see [llm.Options.Source]
	finished bool

	items      []*item
	refused    bool
	incomplete string // why the answer is incomplete
	usage      chat.Usage
	model      string
}

// item is one output item. Its fields come from its last event.
type item struct {
	index     int // some servers send the same one for all, or none
	kind      string
	fields    map[string]json.RawMessage
	text      strings.Builder
	joiner    llm.Joiner
	announced bool
	ended     bool
	matched   bool // with an item of the complete response
}

// Closed implements [llm.Decoder].
func (d *decoder) Closed() bool { return d.finished }

// End implements [llm.Decoder].
func (d *decoder) End(err error) (complete bool, _ error) { return d.finished, err }

// Event implements [llm.Decoder]. It ignores events of unknown types.
func (d *decoder) Event(data []byte) error {
	if llm.IsKeepAlive(data) {
		return nil
	}
	var e map[string]json.RawMessage
	if err := json.Unmarshal(data, &e); err != nil || e == nil {
		if strings.Trim(string(data), "[] \n") == "DONE" { // some servers send no other end
			d.finished = len(d.items) > 0 && !slices.ContainsFunc(d.items, func(it *item) bool { return !it.ended })
			return nil
		}
		return llm.UndecodedEvent(data, err)
	}
	switch kind := str(e["type"]); kind {
	case "response.output_item.added":
		_, err := d.startItem(integer(e["output_index"]), fieldsOf(e["item"]))
		return err
	case "response.output_item.done":
		return d.endItem(integer(e["output_index"]), fieldsOf(e["item"]), false)
	case "response.completed", "response.incomplete", "response.done":
		return d.end(fieldsOf(e["response"]))
	case "response.failed":
		return responseError(fieldsOf(e["response"]))
	case "error":
		refused := llm.ParseError(data)
		return &refused
	default:
		if isDelta, err := d.delta(kind, e); isDelta {
			return err
		}
		if str(e["object"]) == "response" || kind == "" && e["output"] != nil { // a server that ignores the request to stream
			return d.end(e)
		}
		if llm.HasError(e) {
			refused := llm.ParseError(data)
			return &refused
		}
	}
	return nil
}

// delta decodes an event with a piece of an item. isDelta is false for other events.
func (d *decoder) delta(kind string, e map[string]json.RawMessage) (isDelta bool, err error) {
	name, event, _ := cutLast(strings.TrimPrefix(kind, "response."), ".")
	var of string
	chunk := llm.ChunkText
	switch name {
	case "output_text", "refusal":
		of = "message"
	case "reasoning_summary_text", "reasoning_text", "reasoning_summary_part":
		of, chunk = "reasoning", llm.ChunkReasoning
	case "function_call_arguments":
		of, chunk = "function_call", llm.ChunkToolInput
	default:
		return false, nil
	}
	it := d.find(str(e["item_id"]), integer(e["output_index"]), of)
	piece := str(e["delta"])
	switch {
	case name == "reasoning_summary_part":
		if event != "added" || it == nil || it.text.Len() == 0 {
			return true, nil
		}
		piece = "\n\n"
	case event == "done" && (it == nil || it.text.Len() == 0): // the server sent no deltas
		piece = cmp.Or(str(e["text"]), str(e["refusal"]), input(e["arguments"]))
	case event != "delta":
		return true, nil
	case chunk == llm.ChunkToolInput:
		piece = input(e["delta"])
	}
	d.refused = d.refused || name == "refusal" && piece != ""
	if it == nil {
		fields := map[string]json.RawMessage{"type": json.RawMessage(`"` + of + `"`), "id": e["item_id"], "call_id": e["call_id"], "name": e["name"]}
		if it, err = d.startItem(integer(e["output_index"]), fields); err != nil {
			return true, err
		}
	}
	d.append(it, chunk, piece)
	return true, nil
}

// cutLast splits s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func responseError(response map[string]json.RawMessage) error {
	encoded, _ := json.Marshal(map[string]json.RawMessage{"error": response["error"]}) // decoded JSON
	refused := llm.ParseError(encoded)
	refused.Message = cmp.Or(refused.Message, "The provider reports that the response failed.")
	return &refused
}

// find returns the last item that an event belongs to: by its id, by its index, or by its
// kind alone if the server counts in its own way.
func (d *decoder) find(id string, index int, kind string) *item {
	var byIndex, byKind *item
	for _, it := range slices.Backward(d.items) {
		switch {
		case it.kind != kind:
		case id != "" && str(it.fields["id"]) == id:
			return it
		case byIndex == nil && index >= 0 && it.index == index:
			byIndex = it
		case byKind == nil && !it.ended && index < 0:
			byKind = it
		}
	}
	if byIndex != nil && (id == "" || str(byIndex.fields["id"]) == "" || !byIndex.ended) {
		return byIndex
	}
	return byKind
}

// same returns the started item that fields describe, or nil.
func (d *decoder) same(index int, fields map[string]json.RawMessage) *item {
	it := d.find(str(fields["id"]), index, str(fields["type"]))
	if it == nil {
		return nil
	}
	if a, b := str(it.fields["call_id"]), str(fields["call_id"]); a != "" && b != "" && a != b {
		return d.byCall(b)
	}
	if a, b := str(it.fields["id"]), str(fields["id"]); a != b && it.ended {
		return nil // the next one with the same index
	}
	return it
}

func (d *decoder) byCall(id string) *item {
	for _, it := range d.items {
		if id != "" && str(it.fields["call_id"]) == id {
			return it
		}
	}
	return nil
}

func (d *decoder) startItem(index int, fields map[string]json.RawMessage) (*item, error) {
	if fields == nil { // its deltas start it
		return nil, nil
	}
	if it := d.same(index, fields); it != nil {
		return it, nil
	}
	if len(d.items) >= llm.MaxParts {
		return nil, fmt.Errorf("more than %d output items", llm.MaxParts)
	}
	it := &item{index: index, kind: str(fields["type"]), fields: fields}
	d.items = append(d.items, it)
	d.announce(it)
	return it, nil
}

func (d *decoder) announce(it *item) {
	if it.kind == "function_call" && !it.announced && it.callID() != "" && str(it.fields["name"]) != "" {
		it.announced = true
		d.out.Emit(llm.Chunk{Kind: llm.ChunkToolStart, ToolCallID: it.callID(), ToolName: str(it.fields["name"])})
	}
}

func (it *item) callID() string { return cmp.Or(str(it.fields["call_id"]), str(it.fields["id"])) }

// append adds a piece to an item.
func (d *decoder) append(it *item, chunk llm.ChunkKind, piece string) {
	if piece = it.joiner.Add(piece); piece == "" {
		return
	}
	it.text.WriteString(piece)
	c := llm.Chunk{Kind: chunk, Text: piece}
	if chunk == llm.ChunkToolInput {
		c.ToolCallID, c.ToolName = it.callID(), str(it.fields["name"])
		if !it.announced {
			return
		}
	}
	d.out.Emit(c)
}

// endItem takes the final fields of an item and emits what its deltas did not have. complete
// means that they come from the complete response, where the items are in their order.
func (d *decoder) endItem(index int, fields map[string]json.RawMessage, complete bool) error {
	if fields == nil {
		return nil
	}
	it := d.byCall(str(fields["call_id"]))
	if it == nil && complete {
		it = d.unmatched(fields)
	}
	if it == nil {
		var err error
		if it, err = d.startItem(index, fields); err != nil {
			return err
		}
	}
	it.fields, it.kind = fields, cmp.Or(str(fields["type"]), it.kind)
	it.ended, it.matched = true, it.matched || complete
	d.announce(it)
	chunk, final := llm.ChunkText, ""
	switch it.kind {
	case "message":
		final = contentText(fields["content"])
	case "reasoning":
		chunk, final = llm.ChunkReasoning, cmp.Or(contentText(fields["summary"]), contentText(fields["content"]))
	case "function_call":
		chunk, final = llm.ChunkToolInput, input(fields["arguments"])
		if json.Valid([]byte(final)) && !json.Valid([]byte(it.text.String())) && !strings.HasPrefix(final, it.text.String()) {
			it.text.Reset() // pieces were lost
			it.text.WriteString(final)
		}
	}
	if rest, ok := strings.CutPrefix(final, it.text.String()); ok && rest != "" {
		d.append(it, chunk, rest)
	}
	return nil
}

// unmatched returns the first item that may be one of the complete response.
func (d *decoder) unmatched(fields map[string]json.RawMessage) *item {
	id, kind := str(fields["id"]), str(fields["type"])
	var first *item
	for _, it := range d.items {
		switch {
		case it.matched || it.kind != kind:
		case id != "" && str(it.fields["id"]) == id:
			return it
		case first == nil:
			first = it
		}
	}
	if first != nil && kind == "function_call" && str(first.fields["call_id"]) != "" && str(fields["call_id"]) != "" {
		return nil // another call
	}
	return first
}

// end decodes the complete response.
func (d *decoder) end(response map[string]json.RawMessage) error {
	if status := str(response["status"]); status == "failed" || status == "cancelled" {
		return responseError(response)
	}
	var output []json.RawMessage
	_ = json.Unmarshal(response["output"], &output) // some servers leave it empty
	for i, raw := range output {
		if err := d.endItem(i, fieldsOf(raw), true); err != nil {
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
		Cost  json.RawMessage `json:"cost"`
		Ticks llm.Count       `json:"cost_in_usd_ticks"` // xAI
	}
	_ = json.Unmarshal(raw, &u) // an answer must not fail because of its usage report
	if u.Input > 0 && u.Total > 0 {
		u.Output = max(u.Output, u.Total-u.Input)
	}
	d.usage = chat.Usage{
		InputTokens: int64(u.Input), OutputTokens: int64(u.Output), CacheReadTokens: int64(u.InputDetails.Cached),
		CacheWriteTokens: int64(u.InputDetails.CacheWrite), CostMicros: cmp.Or(llm.CostMicros(u.Cost), u.Ticks.TickMicros()),
	}
}

// Done implements [llm.Decoder].
func (d *decoder) Done() llm.Chunk {
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	order.By(d.items, func(a, b *item) int { return a.index - b.index })
	for i, it := range d.items {
		it.text.WriteString(it.joiner.Flush())
		if p, ok := it.part(i); ok {
			m.Parts = append(m.Parts, p)
		}
	}
	if slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return len(p.ProviderOptions) > 0 }) {
		m = llm.WithSource(m, d.source, "")
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
		if len(kept) > 0 {
			keep(itemID, it.fields["id"])
		}
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

// integer decodes a whole number, also in quotes; anything else is -1.
func integer(raw json.RawMessage) int {
	var n float64
	if len(raw) == 0 || json.Unmarshal(bytes.Trim(raw, `"`), &n) != nil || string(raw) == "null" || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}
