package openai

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// decoder builds an answer from the events of a stream. It is lenient about types, names,
// and framing, because every server implements the protocol in its own way.
type decoder struct {
	out    *llm.Output
	source string // see [llm.Options.Source]
	// mayFail means that an invalid call may become a part of the answer.
	mayFail bool

	text      stream
	reasoning stream
	// field is the field that the reasoning came in; see reasoningField.
	field          string
	emptyReasoning bool // an empty reasoning_content was sent
	refused        bool
	calls          calls
	unknown        map[string]json.RawMessage
	usage          chat.Usage
	model          string
	finish         string
	broken         string // why the server broke the answer off
	deltas         bool   // the server sends deltas with content
	terminated     bool   // the stream had its end marker
	learned        *llm.Learned
	call           string // the hash of the body of the call
}

// stream is text that arrives in pieces.
type stream struct {
	all    strings.Builder
	joiner llm.Joiner
}

// newDecoder returns a decoder of the answer to body, whose hash seeds generated call
// ids: a repeated step gets the same ids.
func newDecoder(out *llm.Output, body []byte, req llm.Request, source string, learned *llm.Learned) *decoder {
	seed := sha256.Sum256(body)
	d := &decoder{out: out, source: source, mayFail: !tooManyFailedCalls(req.Messages), unknown: map[string]json.RawMessage{}, learned: learned, call: string(seed[:])}
	d.calls = calls{seed: seed[:], emit: out.Emit, known: map[string]bool{}}
	for _, t := range req.Tools {
		d.calls.known[t.Name] = true
	}
	return d
}

// Event implements [llm.Decoder].
func (d *decoder) Event(data []byte) error {
	err := d.event(data)
	if err != nil {
		d.finish = "" // the answer may be incomplete
	}
	return err
}

// Closed implements [llm.Decoder].
func (d *decoder) Closed() bool { return d.terminated }

// End implements [llm.Decoder].
func (d *decoder) End(err error) (complete bool, _ error) {
	var refused *llm.ProviderError
	switch {
	case err == nil && d.broken != "":
		return false, &llm.ProviderError{Message: "The provider ended the answer with the reason \"" + d.broken + "\"."}
	case err == nil && d.finish == "" && d.terminated:
		return d.learned.EndsWithout(d.call, d.calls.areBroken()), nil
	case err == nil && d.finish != "":
		d.learned.EndsWithReason(d.call)
		return true, nil
	case err == nil:
		return false, nil
	case errors.As(err, &refused) && refused.FailedCall != "" && d.mayFail:
		d.addFailedCall(refused.FailedCall)
		return true, nil
	}
	return d.finish != "", err
}

func (d *decoder) event(data []byte) error {
	if text, ok := plainText(data); ok {
		d.deltas = true
		d.appendText(text)
		return nil
	}
	data = bytes.TrimSpace(data)
	switch {
	case llm.IsKeepAlive(data):
		return nil
	case bytes.EqualFold(bytes.Trim(data, "[]\" "), []byte("done")):
		d.terminated = true
		return nil
	}
	var fields map[string]json.RawMessage
	if chunks := chunkList(data); chunks != nil {
		for _, c := range chunks {
			if err := d.event(c); err != nil {
				return err
			}
		}
		return nil
	}
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return llm.UndecodedEvent(data, err)
	}
	if llm.HasError(fields) {
		refused := llm.ParseError(data)
		return &refused
	}
	return d.chunk(fields)
}

// chunkList returns the chunks of a server that sends them as one list, or nil.
func chunkList(data []byte) (chunks []json.RawMessage) {
	if data[0] != '[' || json.Unmarshal(data, &chunks) != nil || len(chunks) == 0 || object(chunks[0])["choices"] == nil {
		return nil
	}
	return chunks
}

func (d *decoder) chunk(fields map[string]json.RawMessage) error {
	d.model = cmp.Or(str(fields["model"]), d.model)
	d.count(fields["usage"])
	d.count(object(fields["x_groq"])["usage"])
	if fields["eval_count"] != nil { // Ollama's own protocol
		d.count(mustJSON(fields, nil))
	}
	d.gatewayCost(fields["provider_metadata"])
	choices := list(fields["choices"])
	if len(choices) == 0 && object(fields["message"]) != nil { // Ollama's own protocol
		choices = []json.RawMessage{mustJSON(fields, nil)}
	}
	for _, raw := range choices {
		choice := object(raw)
		if choice == nil || integer(choice["index"]) > 0 {
			continue
		}
		if err := d.choice(choice, str(fields["object"]) == "chat.completion"); err != nil {
			return err
		}
	}
	return nil
}

// choice decodes a choice. whole means that its message is the complete answer.
func (d *decoder) choice(choice map[string]json.RawMessage, whole bool) error {
	if llm.HasError(map[string]json.RawMessage{"error": choice["error"], "choices": nil}) {
		refused := llm.ParseError(mustJSON(choice, nil))
		return &refused
	}
	d.count(choice["usage"]) // Moonshot
	if err := d.delta(d.deltaOf(choice, whole)); err != nil {
		return err
	}
	finish := strings.ToLower(cmp.Or(str(choice["finish_reason"]), str(choice["done_reason"])))
	if brokenOff[finish] {
		// A later event may have the server's own sentence.
		d.broken = cmp.Or(str(choice["native_finish_reason"]), finish)
		return nil
	}
	d.finish = cmp.Or(finish, d.finish)
	if done := string(choice["done"]); done == "true" {
		d.finish = cmp.Or(d.finish, "stop")
	}
	return nil
}

// brokenOff lists the finish reasons of answers that are not complete and that another call
// may complete.
var brokenOff = map[string]bool{
	"error": true, "network_error": true, "insufficient_system_resource": true, "abort": true, "aborted": true, "cancelled": true,
	"malformed_function_call": true, "unexpected_tool_call": true, "model_overloaded": true, "server_error": true, "timeout": true, "unavailable": true,
}

// deltaOf returns the delta of a choice, also if the server calls it message or text.
func (d *decoder) deltaOf(choice map[string]json.RawMessage, whole bool) map[string]json.RawMessage {
	delta, message := object(choice["delta"]), object(choice["message"])
	if s, ok := llm.DecodeString(choice["text"]); ok && s != "" && len(delta) == 0 && message == nil {
		return map[string]json.RawMessage{"content": choice["text"]}
	}
	for name, v := range delta {
		if name != "role" && string(v) != "null" && string(v) != `""` && string(v) != "[]" {
			d.deltas = true
			return delta
		}
	}
	repeats := whole || str(choice["finish_reason"]) != "" && d.deltas && str(message["content"]) == d.text.all.String()
	if message == nil || repeats && d.out.Begun {
		return delta // the message repeats the deltas
	}
	return message
}

func (d *decoder) delta(delta map[string]json.RawMessage) error {
	d.reasoningFields(delta)
	for _, name := range []string{"content", "refusal"} {
		raw := delta[name]
		if parts := list(raw); parts != nil {
			d.contentParts(parts)
			continue
		}
		s := str(raw)
		d.refused = d.refused || s != "" && name == "refusal"
		d.appendText(s)
	}
	if raw, ok := delta["function_call"]; ok && object(raw) != nil { // before tool_calls
		if err := d.calls.add(map[string]json.RawMessage{"function": raw}); err != nil {
			return err
		}
	}
	for _, raw := range list(delta["tool_calls"]) {
		piece := object(raw)
		if piece == nil {
			continue
		}
		if err := d.calls.add(piece); err != nil {
			return err
		}
	}
	for name, v := range delta {
		if slices.Contains(messageData, name) {
			mergeField(d.unknown, name, v)
		}
	}
	d.gatewayCost(delta["provider_metadata"])
	return nil
}

// reasoningFields decodes reasoning, which precedes the text of the same delta. A server
// that sends it under two names sends it once.
func (d *decoder) reasoningFields(delta map[string]json.RawMessage) {
	for _, name := range []string{"reasoning_content", "reasoning", "thinking", "reasoning_text"} {
		s, isString := llm.DecodeString(delta[name])
		if fields := object(delta[name]); fields != nil {
			s, isString = cmp.Or(texts(fields["content"]), texts(fields["text"])), true
		}
		if isString && s == "" && name == "reasoning_content" {
			d.emptyReasoning = true
		}
		if isString && s != "" && (d.field == "" || d.field == name) {
			d.appendReasoning(name, s)
		}
	}
}

// contentParts decodes content that is a list: of texts, and of Mistral's thinking.
func (d *decoder) contentParts(parts []json.RawMessage) {
	for _, raw := range parts {
		part := object(raw)
		switch {
		case part == nil:
			d.appendText(str(raw))
		case part["thinking"] != nil:
			d.appendReasoning(contentThinking, texts(part["thinking"]))
		case strings.Contains(str(part["type"]), "reasoning") || str(part["type"]) == "thinking": // Databricks
			d.appendReasoning(contentReasoning, cmp.Or(texts(part["text"]), texts(part["summary"]), texts(part["content"]), texts(part["reasoning"])))
		default:
			d.appendText(str(part["text"]))
		}
	}
}

// texts joins a string, a text part, or a list of them.
func texts(raw json.RawMessage) string {
	if s, ok := llm.DecodeString(raw); ok {
		return s
	}
	var b strings.Builder
	for _, piece := range list(raw) {
		b.WriteString(cmp.Or(str(object(piece)["text"]), str(piece)))
	}
	return b.String()
}

func (d *decoder) appendText(s string) {
	if s = d.text.joiner.Add(s); s != "" {
		d.text.all.WriteString(s)
		d.out.Emit(llm.Chunk{Kind: llm.ChunkText, Text: s})
	}
}

func (d *decoder) appendReasoning(field, s string) {
	if s == "" {
		return
	}
	d.field = field
	if s = d.reasoning.joiner.Add(s); s != "" {
		d.reasoning.all.WriteString(s)
		d.out.Emit(llm.Chunk{Kind: llm.ChunkReasoning, Text: s})
	}
}

// flush emits halves of characters whose other half never came.
func (d *decoder) flush() {
	if d.field == "" { // some servers send the text of the reasoning only in its details
		for _, raw := range list(d.unknown["reasoning_details"]) {
			detail := object(raw)
			d.appendReasoning("reasoning_details", cmp.Or(str(detail["text"]), str(detail["summary"])))
		}
	}
	if s := d.reasoning.joiner.Flush(); s != "" {
		d.reasoning.all.WriteString(s)
		d.out.Emit(llm.Chunk{Kind: llm.ChunkReasoning, Text: s})
	}
	if s := d.text.joiner.Flush(); s != "" {
		d.text.all.WriteString(s)
		d.out.Emit(llm.Chunk{Kind: llm.ChunkText, Text: s})
	}
	d.calls.announceAll()
}

// Done implements [llm.Decoder].
func (d *decoder) Done() llm.Chunk {
	d.flush()
	m := chat.Message{Role: chat.Assistant, Parts: []chat.Part{}}
	field := d.field
	if field == "" && d.emptyReasoning {
		field = "reasoning_content" // DeepSeek wants it back although it is empty
	}
	if field != "" {
		m.Parts = append(m.Parts, chat.Part{
			Type: chat.TypeReasoning, Text: d.reasoning.all.String(),
			ProviderOptions: llm.ProviderOptions(options, map[string]json.RawMessage{reasoningField: mustJSON(field, nil)}),
		})
	}
	if d.text.all.Len() > 0 {
		m.Parts = append(m.Parts, chat.TextPart(d.text.all.String()))
	}
	callParts, hasData := d.calls.parts()
	m.Parts = append(m.Parts, callParts...)
	m.ProviderOptions = llm.ProviderOptions(options, d.unknown)
	if field != "" || hasData || len(d.unknown) > 0 {
		m = llm.WithSource(m, d.source, "")
	}
	return llm.Chunk{Kind: llm.ChunkDone, Message: m, Usage: d.usage, Stop: d.stop(len(callParts)), Model: d.model}
}

func (d *decoder) stop(calls int) llm.StopReason {
	switch d.finish {
	case "content_filter", "content-filter", "safety", "sensitive", "refusal", "recitation":
		return llm.StopRefusal
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded":
		return llm.StopLength
	}
	switch {
	case d.refused:
		return llm.StopRefusal
	case calls > 0: // several servers report "stop" after tool calls
		return llm.StopTools
	}
	switch d.finish {
	case "stop", "", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "done", "tool_calls", "function_call":
		return llm.StopEnd
	}
	return llm.StopOther
}

// str decodes a string, or the text of a number or boolean; anything else is "".
func str(raw json.RawMessage) string {
	if s, ok := llm.DecodeString(raw); ok {
		return s
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" {
		return ""
	}
	return string(raw)
}

func object(raw json.RawMessage) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(raw, &fields) // nil if it is not an object
	return fields
}

// list decodes a list, or an object as a list of one.
func list(raw json.RawMessage) (items []json.RawMessage) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '{' {
		return []json.RawMessage{raw}
	}
	_ = json.Unmarshal(raw, &items) // nil if it is not a list
	return items
}

// integer decodes a whole number, also in quotes; anything else is -1.
func integer(raw json.RawMessage) int {
	var n float64
	if json.Unmarshal(bytes.Trim(bytes.TrimSpace(raw), `"`), &n) != nil || len(raw) == 0 || string(raw) == "null" || n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int(n)
}
