package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// Bounds of a schema that is made plain: models get lost in deeper ones, and references may be
// endless. A schema of more bytes becomes an object with any fields.
const (
	maxPlainDepth = 8
	maxPlainParts = 1000
	maxPlainBytes = 64 << 10
)

var plainTypes = []string{"object", "array", "string", "integer", "number", "boolean"}

// Part is a part of a plain schema: one type for each value, its description, the fields of objects
// with those that are required, the items of arrays, and the words that a text may be. Its JSON is a
// JSON schema.
type Part struct {
	Description string           `json:"description,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	Items       *Part            `json:"items,omitempty"`
	Properties  map[string]*Part `json:"properties,omitempty"`
	Required    []string         `json:"required,omitempty"`
	Type        string           `json:"type"`
}

// Plain reduces a JSON schema of an object to what every program understands. References within the
// schema are followed, and of several alternatives the first stays. unknown is the type of values
// whose type the schema does not say.
func Plain(schema json.RawMessage, unknown string) *Part {
	var root any
	if len(schema) > maxPlainBytes || json.Unmarshal(schema, &root) != nil {
		root = nil
	}
	p := plainer{root: root, unknown: unknown}
	out := p.plain(root, 0)
	if out.Type != "object" {
		return &Part{Type: "object"}
	}
	return out
}

// plainer reduces the parts of a schema.
type plainer struct {
	root    any
	unknown string
	parts   int
}

func (p *plainer) isFull(depth int) bool { return depth >= maxPlainDepth || p.parts > maxPlainParts }

func (p *plainer) plain(part any, depth int) *Part {
	s := p.merged(part, depth)
	out := &Part{Type: p.typeOf(s)}
	out.Description, _ = s["description"].(string)
	p.parts++
	switch {
	case out.Type == "array" && p.isFull(depth):
		out.Items = &Part{Type: p.unknown}
	case p.isFull(depth):
	case out.Type == "object":
		p.fields(s, out, depth)
	case out.Type == "array":
		items := s["items"]
		if tuple := listOf(items); len(tuple) > 0 {
			items = tuple[0]
		}
		out.Items = p.plain(items, depth+1)
	case out.Type == "string":
		out.Enum = wordsOf(s)
	}
	return out
}

func (p *plainer) fields(s map[string]any, out *Part, depth int) {
	given, _ := s["properties"].(map[string]any)
	if len(given) == 0 {
		return
	}
	out.Properties = make(map[string]*Part, len(given))
	for name, field := range given {
		out.Properties[name] = p.plain(field, depth+1)
	}
	for _, name := range listOf(s["required"]) {
		if name, ok := name.(string); ok && out.Properties[name] != nil && !slices.Contains(out.Required, name) {
			out.Required = append(out.Required, name)
		}
	}
}

// merged follows the references of a part, and merges into it the first of its alternatives and all
// parts that must hold together.
func (p *plainer) merged(part any, depth int) map[string]any {
	s, _ := part.(map[string]any)
	for range maxPlainDepth {
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
	for _, one := range listOf(s["allOf"]) {
		s = merge(s, p.merged(one, depth+1))
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		either := slices.DeleteFunc(slices.Clone(listOf(s[key])), isNull)
		if len(either) == 0 {
			continue
		}
		first := p.merged(either[0], depth+1)
		if len(either) > 1 && s["required"] == nil { // another alternative may need other fields
			first = without(first, "required")
		}
		s = merge(s, first)
	}
	return s
}

// isNull reports whether an alternative is only there because the value may be missing.
func isNull(part any) bool {
	s, _ := part.(map[string]any)
	return s["type"] == "null" || s["not"] != nil
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
func (p *plainer) typeOf(s map[string]any) string {
	for _, kind := range append(listOf(s["type"]), s["type"]) {
		if kind, ok := kind.(string); ok && slices.Contains(plainTypes, kind) {
			return kind
		}
	}
	switch {
	case s["properties"] != nil:
		return "object"
	case s["items"] != nil:
		return "array"
	}
	for _, word := range append(listOf(s["enum"]), s["const"]) {
		switch word.(type) {
		case string:
			return "string"
		case float64:
			return "number"
		case bool:
			return "boolean"
		}
	}
	return p.unknown
}

func listOf(v any) []any {
	list, _ := v.([]any)
	return slices.Clip(list)
}

// wordsOf returns the words that a text may be.
func wordsOf(s map[string]any) (words []string) {
	for _, word := range append(listOf(s["enum"]), s["const"]) {
		if word, ok := word.(string); ok && word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}
