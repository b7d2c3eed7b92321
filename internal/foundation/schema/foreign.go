package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/foundation/fault"
)

// Foreign is a JSON schema that another program wrote. It is only used to bring inputs into
// the types of the schema, and to find mistakes early: the program checks its inputs itself.
type Foreign struct {
	// types is the schema, simplified for the decoder.
	types *jsonschema.Schema
	// resolved is nil if the schema cannot be used for validation.
	resolved *jsonschema.Resolved
}

// ParseForeign reads a schema. A schema that cannot be read accepts every object.
func ParseForeign(text json.RawMessage) *Foreign {
	var whole, types jsonschema.Schema
	if json.Unmarshal(text, &whole) != nil {
		text = modernize(text)
		whole = jsonschema.Schema{}
	}
	if json.Unmarshal(text, &whole) != nil || json.Unmarshal(text, &types) != nil {
		return &Foreign{types: &jsonschema.Schema{}}
	}
	f := &Foreign{types: &types}
	prepare(&types, 0)
	// The validator knows only draft 7 and 2020-12, and refuses all inputs of others, which are nearly the same.
	if strings.Contains(whole.Schema, "draft-0") {
		whole.Schema = "http://json-schema.org/draft-07/schema#"
	} else {
		whole.Schema = ""
	}
	// References to other documents cannot be resolved, and are not fetched.
	if resolved, err := whole.Resolve(nil); err == nil {
		f.resolved = resolved
	}
	return f
}

// modernize rewrites the keywords of drafts 3 and 4 that have another type today: exclusiveMinimum
// and exclusiveMaximum as booleans beside a limit, and required as one of a property.
func modernize(text json.RawMessage) json.RawMessage {
	root, err := decode(text)
	if err != nil {
		return text
	}
	var visit func(v any, depth int)
	visit = func(v any, depth int) {
		if list, ok := v.([]any); ok && depth <= maxDepth {
			for _, one := range list {
				visit(one, depth+1)
			}
		}
		s, ok := v.(map[string]any)
		if !ok || depth > maxDepth {
			return
		}
		for exclusive, limit := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
			if on, old := s[exclusive].(bool); old {
				if delete(s, exclusive); on && s[limit] != nil {
					s[exclusive] = s[limit]
					delete(s, limit)
				}
			}
		}
		if _, old := s["required"].(bool); old {
			delete(s, "required")
		}
		for _, one := range s {
			visit(one, depth+1)
		}
	}
	visit(root, 0)
	out, err := json.Marshal(root)
	if err != nil {
		return text
	}
	return out
}

// prepare makes a schema readable for the decoder: it sorts the fields, removes defaults,
// which the other program adds itself, and removes the alternative null.
func prepare(s *jsonschema.Schema, depth int) {
	if s == nil || depth > maxDepth {
		return
	}
	s.PropertyOrder, s.Default = slices.Sorted(maps.Keys(s.Properties)), nil
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	for _, either := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		i := slices.IndexFunc(either, func(one *jsonschema.Schema) bool { return one != nil && one.Type == "null" })
		if i >= 0 && len(either) == 2 && either[1-i] != nil && s.Type == "" {
			other := either[1-i]
			s.Type, s.Items, s.Properties, s.Required, s.Enum = other.Type, other.Items, other.Properties, other.Required, other.Enum
			s.AdditionalProperties, s.AnyOf, s.OneOf = other.AdditionalProperties, nil, nil
			s.PropertyOrder = slices.Sorted(maps.Keys(s.Properties))
		}
	}
	for _, p := range s.Properties {
		prepare(p, depth+1)
	}
	prepare(s.Items, depth+1)
}

// open reports whether an object may have fields that its schema does not list.
func open(s *jsonschema.Schema) bool {
	extra := s.AdditionalProperties
	return len(s.Properties) == 0 || extra != nil && extra.Not == nil || len(s.PatternProperties) > 0 || len(s.AnyOf)+len(s.OneOf)+len(s.AllOf) > 0 || s.Ref != ""
}

// Normalize returns an input with the field names and types of the schema. Fields that the
// schema does not list are refused, unless it says that there may be some.
func (f *Foreign) Normalize(input json.RawMessage) (json.RawMessage, error) {
	dec := &decoder{foreign: true}
	given, err := decode(orEmpty(input))
	fields, isObject := given.(map[string]any)
	if err != nil || !isObject {
		return nil, fault.InvalidField("input", "The input must be a JSON object.")
	}
	value := dec.object("", fields, f.types, 0)
	if len(dec.problems) > 0 {
		return nil, asFault(dec.problems)
	}
	normal, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode input: %w", err)
	}
	if f.resolved == nil {
		return normal, nil
	}
	var plain any
	if err := json.Unmarshal(normal, &plain); err != nil {
		return nil, fault.InvalidField("input", "The input contains a number that is too large.")
	}
	if err := f.resolved.Validate(plain); err != nil {
		return nil, fault.InvalidField("input", "The input does not match the schema: %s.", err)
	}
	return normal, nil
}

func orEmpty(input json.RawMessage) json.RawMessage {
	if len(input) == 0 || string(input) == "null" {
		return json.RawMessage("{}")
	}
	return input
}
