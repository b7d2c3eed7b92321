package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// MarshalJSON writes the AI SDK's form.
func (m Message) MarshalJSON() ([]byte, error) {
	w := newObject()
	w.put("role", m.Role)
	switch {
	case m.IsString && len(m.Parts) == 0:
		w.put("content", "")
	case m.IsString && len(m.Parts) == 1 && m.Parts[0].plain():
		w.put("content", m.Parts[0].Text)
	case m.Parts == nil:
		w.put("content", []Part{})
	default:
		w.put("content", m.Parts)
	}
	w.raw("providerOptions", m.ProviderOptions)
	w.extra(m.Extra)
	return w.done()
}

// UnmarshalJSON reads the AI SDK's form and keeps what it does not know.
func (m *Message) UnmarshalJSON(data []byte) error {
	fields, err := decodeObject(data)
	if err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	*m = Message{}
	if err := take(fields, "role", &m.Role); err != nil {
		return err
	}
	if !m.Role.Valid() {
		return fmt.Errorf("decode message: unknown role %q", m.Role)
	}
	content := fields["content"]
	delete(fields, "content")
	switch {
	case len(content) == 0 || bytes.Equal(content, []byte("null")):
		return fmt.Errorf("decode message: content is missing")
	case content[0] == '"':
		s, err := decodeText(content)
		if err != nil {
			return fmt.Errorf("decode message content: %w", err)
		}
		m.IsString = true
		m.Parts = []Part{{Type: TypeText, Text: s}}
	default:
		if err := json.Unmarshal(content, &m.Parts); err != nil {
			return fmt.Errorf("decode message content: %w", err)
		}
	}
	m.ProviderOptions = takeRaw(fields, "providerOptions")
	m.Extra = rest(fields)
	return nil
}

// plain says that a string can stand for the part.
func (p Part) plain() bool {
	return p.Type == TypeText && p.ProviderOptions == nil && p.Extra == nil
}

// MarshalJSON writes the AI SDK's form of the part.
func (p Part) MarshalJSON() ([]byte, error) {
	w := newObject()
	w.put("type", p.Type)
	switch p.Type {
	case TypeText, TypeReasoning:
		w.put("text", p.Text)
	case TypeToolCall:
		w.put("toolCallId", p.ToolCallID)
		w.put("toolName", p.ToolName)
		w.rawOr("input", p.Input, "{}")
	case TypeToolResult:
		w.put("toolCallId", p.ToolCallID)
		w.put("toolName", p.ToolName)
		w.rawOr("output", p.Output, `{"type":"text","value":""}`)
	case TypeImage:
		w.raw("image", p.Data)
		w.text("mediaType", p.MediaType)
	case TypeFile:
		w.raw("data", p.Data)
		w.text("filename", p.Filename)
		w.text("mediaType", p.MediaType)
	}
	w.raw("providerOptions", p.ProviderOptions)
	w.extra(p.Extra)
	return w.done()
}

// UnmarshalJSON reads the AI SDK's form and keeps what it does not know.
func (p *Part) UnmarshalJSON(data []byte) error {
	fields, err := decodeObject(data)
	if err != nil {
		return fmt.Errorf("decode part: %w", err)
	}
	*p = Part{}
	if err := take(fields, "type", &p.Type); err != nil {
		return err
	}
	if p.Type == "" {
		return fmt.Errorf("decode part: type is missing")
	}
	switch p.Type {
	case TypeText, TypeReasoning:
		err = take(fields, "text", &p.Text)
	case TypeToolCall, TypeToolResult:
		if err = take(fields, "toolCallId", &p.ToolCallID); err == nil {
			err = take(fields, "toolName", &p.ToolName)
		}
	}
	if err != nil {
		return err
	}
	switch p.Type {
	case TypeToolCall:
		p.Input = takeRaw(fields, "input")
	case TypeToolResult:
		p.Output = takeRaw(fields, "output")
	case TypeImage:
		p.Data = takeRaw(fields, "image")
		p.MediaType = takeText(fields, "mediaType")
	case TypeFile:
		p.Data = takeRaw(fields, "data")
		p.MediaType = takeText(fields, "mediaType")
		p.Filename = takeText(fields, "filename")
	}
	p.ProviderOptions = takeRaw(fields, "providerOptions")
	p.Extra = rest(fields)
	return nil
}

// decodeObject splits an object into its fields. Every prompt decodes its whole conversation,
// and this takes less than half of the time of [json.Unmarshal]. As there, the last one of fields with
// the same name counts. The fields are parts of data.
func decodeObject(data []byte) (map[string]json.RawMessage, error) {
	if !json.Valid(data) || bytes.TrimSpace(data)[0] != '{' {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(data, &fields); err != nil { // its error names the fault
			return nil, err
		}
		return nil, fmt.Errorf("want an object, got null")
	}
	fields := make(map[string]json.RawMessage, 4)
	for rest := bytes.TrimSpace(bytes.TrimSpace(data)[1:]); rest[0] != '}'; {
		end := valueEnd(rest)
		name, err := decodeText(rest[:end])
		if err != nil {
			return nil, err
		}
		rest = bytes.TrimSpace(bytes.TrimSpace(rest[end:])[1:]) // the colon
		end = valueEnd(rest)
		fields[name] = rest[:end:end]
		if rest = bytes.TrimSpace(rest[end:]); rest[0] == ',' {
			rest = bytes.TrimSpace(rest[1:])
		}
	}
	return fields, nil
}

// valueEnd returns the length of the value that valid JSON begins with.
func valueEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what the value is in
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

// decodeText decodes a value that should be a string.
func decodeText(data []byte) (s string, err error) {
	if plain := bytes.Trim(data, `"`); len(plain) == len(data)-2 && !bytes.ContainsAny(plain, `"\`) && utf8.Valid(plain) {
		return string(plain), nil
	}
	return s, json.Unmarshal(data, &s)
}

// take takes a string, if it is there.
func take[S ~string](fields map[string]json.RawMessage, name string, into *S) error {
	raw, ok := fields[name]
	if !ok {
		return nil
	}
	if bytes.Equal(raw, []byte("null")) {
		return fmt.Errorf("decode %s: want a string, got null", name)
	}
	text, err := decodeText(raw)
	if err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	*into = S(text)
	delete(fields, name)
	return nil
}

// takeText takes an optional string. One that is empty or of another type
// stays among the fields, so that it is written back as it came.
func takeText(fields map[string]json.RawMessage, name string) string {
	s, err := decodeText(fields[name])
	if err != nil || s == "" {
		return ""
	}
	delete(fields, name)
	return s
}

func takeRaw(fields map[string]json.RawMessage, name string) json.RawMessage {
	raw := bytes.Clone(fields[name])
	delete(fields, name)
	return raw
}

func rest(fields map[string]json.RawMessage) map[string]json.RawMessage {
	if len(fields) == 0 {
		return nil
	}
	for name, raw := range fields {
		fields[name] = bytes.Clone(raw)
	}
	return fields
}

// object writes a JSON object with its fields in a fixed order, so equal
// messages have equal bytes (checksums and prompt caches depend on it).
type object struct {
	buf     bytes.Buffer
	written []string
	err     error
}

func newObject() *object {
	o := &object{}
	o.buf.WriteByte('{')
	return o
}

func (o *object) put(name string, v any) {
	if o.err != nil {
		return
	}
	data, err := json.Marshal(v)
	if err != nil {
		o.err = fmt.Errorf("encode %s: %w", name, err)
		return
	}
	o.raw(name, data)
}

func (o *object) text(name, v string) {
	if v != "" {
		o.put(name, v)
	}
}

func (o *object) rawOr(name string, v json.RawMessage, fallback string) {
	if len(v) == 0 {
		v = json.RawMessage(fallback)
	}
	o.raw(name, v)
}

func (o *object) raw(name string, v json.RawMessage) {
	if o.err != nil || len(v) == 0 {
		return
	}
	if o.buf.Len() > 1 {
		o.buf.WriteByte(',')
	}
	o.written = append(o.written, name)
	key, _ := json.Marshal(name) // a string always marshals
	o.buf.Write(key)
	o.buf.WriteByte(':')
	o.buf.Write(v)
}

func (o *object) extra(fields map[string]json.RawMessage) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(o.written, name) {
			o.raw(name, fields[name])
		}
	}
}

func (o *object) done() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	o.buf.WriteByte('}')
	return o.buf.Bytes(), nil
}
