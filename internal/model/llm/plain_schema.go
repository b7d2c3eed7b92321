package llm

import (
	"encoding/json"
	"slices"
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

// schemaRefused matches refusals of the schema of a tool. Hosts accept different parts of JSON
// Schema, and one schema that they do not accept makes them refuse the whole call.
var schemaRefused = lazyregexp.New(`(?i)schema|grammar|function_?declarations?|functions?\.parameters|invalid_function_parameters`)

// isSchemaRefused reports whether a refusal may be about the schema of a tool.
func isSchemaRefused(e ProviderError) bool {
	return schemaRefused().MatchString(e.Message) || schemaRefused().MatchString(e.Param) || schemaRefused().MatchString(e.Code)
}

// Bounds of a schema that is made plain: models get lost in deeper ones, and references may be
// endless. A schema of more bytes becomes an object with any fields.
const (
	maxSchemaDepth = 8
	maxSchemaParts = 1000
	maxSchemaBytes = 64 << 10
)

var plainTypes = []string{"object", "array", "string", "integer", "number", "boolean"}

// ToolSchema returns the schema of a tool as the endpoint accepts it.
func (f Facts) ToolSchema(schema json.RawMessage) json.RawMessage {
	switch {
	case f.PlainSchemas:
		return PlainSchema(schema)
	case len(schema) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return schema
}

// PlainSchema reduces a JSON schema to what all hosts accept: one type for each value, its
// description, the fields of objects with those that are required, the items of arrays, and the
// words that a text may be. References within the schema are followed, and of several alternatives
// the first stays. The tool itself checks what it gets.
func PlainSchema(schema json.RawMessage) json.RawMessage {
	var root any
	if len(schema) > maxSchemaBytes || json.Unmarshal(schema, &root) != nil {
		root = nil
	}
	p := plainer{root: root}
	out := p.plain(root, 0)
	if out["type"] != "object" {
		out = map[string]any{"type": "object"}
	}
	if out["properties"] == nil {
		out["properties"] = map[string]any{}
	}
	text, err := json.Marshal(out)
	if err != nil { // values of JSON always marshal
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return text
}

// plainer reduces the parts of a schema.
type plainer struct {
	root  any
	parts int
}

func (p *plainer) plain(part any, depth int) map[string]any {
	s := p.merged(part, depth)
	kind := typeOf(s)
	out := map[string]any{"type": kind}
	if text, ok := s["description"].(string); ok && text != "" {
		out["description"] = text
	}
	if p.isFull(depth) {
		if kind == "array" {
			out["items"] = map[string]any{"type": "string"}
		}
		return out
	}
	switch kind {
	case "object":
		p.fields(s, out, depth)
	case "array":
		items := s["items"]
		if tuple, ok := items.([]any); ok && len(tuple) > 0 {
			items = tuple[0]
		}
		out["items"] = p.plain(items, depth+1)
	case "string":
		if words := wordsOf(s); len(words) > 0 {
			out["enum"] = words
		}
	}
	return out
}

func (p *plainer) isFull(depth int) bool { return depth >= maxSchemaDepth || p.parts > maxSchemaParts }

func (p *plainer) fields(s, out map[string]any, depth int) {
	given, _ := s["properties"].(map[string]any)
	if len(given) == 0 {
		return
	}
	fields := make(map[string]any, len(given))
	for name, field := range given {
		fields[name] = p.plain(field, depth+1)
	}
	out["properties"] = fields
	var required []string
	names, _ := s["required"].([]any)
	for _, name := range names {
		if name, ok := name.(string); ok && fields[name] != nil && !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
}

// merged follows the references of a part, and merges into it the first of its alternatives and all
// parts that must hold together.
func (p *plainer) merged(part any, depth int) map[string]any {
	s, _ := part.(map[string]any)
	for range maxSchemaDepth {
		ref, ok := s["$ref"].(string)
		if !ok {
			break
		}
		target, _ := p.at(ref).(map[string]any)
		s = merge(without(s, "$ref"), target)
	}
	if p.parts++; p.isFull(depth) {
		return s
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := s[key].([]any)
		for _, one := range parts {
			next := p.merged(one, depth+1)
			if key != "allOf" && (next["type"] == "null" || next["not"] != nil) {
				continue
			}
			required := s["required"]
			s = merge(s, next)
			if key == "allOf" {
				continue
			}
			if s["required"] = required; required == nil { // an alternative may need other fields
				delete(s, "required")
			}
			break
		}
	}
	return s
}

// at returns the part of the schema that a reference names, or nil (RFC 6901, section 6).
func (p *plainer) at(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	part := p.root
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name == "" {
			continue
		}
		m, _ := part.(map[string]any)
		part = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	}
	return part
}

func without(s map[string]any, key string) map[string]any {
	out := make(map[string]any, len(s))
	for k, v := range s {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// merge returns s with what only other has. Fields of both stay.
func merge(s, other map[string]any) map[string]any {
	out := without(s, "")
	for k, v := range other {
		mine, ok := out[k].(map[string]any)
		theirs, both := v.(map[string]any)
		switch {
		case k == "properties" && ok && both:
			out[k] = merge(mine, theirs)
		case out[k] == nil:
			out[k] = v
		}
	}
	return out
}

// typeOf returns the type of a part, or the one that its other keys suggest.
func typeOf(s map[string]any) string {
	kinds, _ := s["type"].([]any)
	kinds = append(kinds, s["type"])
	for _, kind := range kinds {
		if kind, ok := kind.(string); ok && slices.Contains(plainTypes, kind) {
			return kind
		}
	}
	words := append([]any{s["const"]}, listOf(s["enum"])...)
	switch {
	case s["properties"] != nil:
		return "object"
	case s["items"] != nil:
		return "array"
	}
	for _, word := range words {
		switch word.(type) {
		case float64:
			return "number"
		case bool:
			return "boolean"
		}
	}
	return "string"
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return list
}

// wordsOf returns the words that a text may be.
func wordsOf(s map[string]any) (words []string) {
	for _, word := range append([]any{s["const"]}, listOf(s["enum"])...) {
		if word, ok := word.(string); ok && word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}
