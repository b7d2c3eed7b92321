package openaiapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"lilac/internal/foundation/fault"
)

// format is the form of an answer that a client wants. Its schema is an entry of its own in responses,
// and inside of another one in chat completions.
type format struct {
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Chat   *format         `json:"json_schema,omitempty"`
}

// maxSchema bounds the schema in a prompt, in bytes.
const maxSchema = 256 << 10

// demand adds a format to the prompt, and reports whether it is JSON. The agent works in steps and may
// write between them, so a model's own mode for JSON does not fit: the prompt asks for the format, and the
// client gets the JSON in the answer alone.
func (c *conversation) demand(f *format, field string) (bool, error) {
	if f == nil || f.Type == "" || f.Type == "text" {
		return false, nil
	}
	if !strings.HasPrefix(f.Type, "json_") {
		return false, fault.InvalidField(field, "Answers are texts or JSON; the format %q is not supported.", f.Type)
	}
	c.prompt += "\n\n(A program reads your answer. End with one JSON object, and write nothing after it."
	schema := cmp.Or(f.Chat, f).Schema
	if len(schema) > maxSchema {
		return false, fault.InvalidField(field, "The JSON Schema has more than %d bytes.", maxSchema)
	}
	if len(schema) > 0 {
		c.prompt += " It must match this JSON Schema: " + string(schema)
	}
	c.prompt += ")"
	return true, nil
}

// maxBraces bounds the braces at which an object is looked for: reading to the end from each one is quadratic.
const maxBraces = 1000

// lastJSON returns the last JSON object in a text, or the text if it has none or breaks off in one.
func lastJSON(text string) string {
	found, rest := text, text
	for range maxBraces {
		at := strings.IndexByte(rest, '{')
		if at < 0 {
			break
		}
		rest = rest[at:]
		var value json.RawMessage
		d := json.NewDecoder(strings.NewReader(rest))
		switch err := d.Decode(&value); {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return text
		case err != nil:
			rest = rest[1:]
		default:
			found, rest = string(value), rest[d.InputOffset():]
		}
	}
	return found
}
