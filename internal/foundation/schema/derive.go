package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// derived is what a struct says about its inputs.
type derived struct {
	resolved *jsonschema.Resolved
	text     json.RawMessage
	// nonBlank holds the names of the fields that must not be blank.
	nonBlank map[string]bool
}

func derive(t reflect.Type) (d derived, err error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {}, // any value
	}})
	if err != nil {
		return d, err
	}
	if s.Type != "object" {
		return d, fmt.Errorf("%s is not a struct", t)
	}
	d.nonBlank = map[string]bool{}
	if err := d.constrain(t, s); err != nil {
		return d, err
	}
	if d.text, err = json.Marshal(s); err != nil {
		return d, err
	}
	d.resolved, err = s.Resolve(nil)
	return d, err
}

// constrain adds the limits that the tags of t set to its schema.
func (d *derived) constrain(t reflect.Type, s *jsonschema.Schema) error {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
		simplify(s)
		if s.Items != nil {
			s = s.Items
		}
	}
	if simplify(s); t.Kind() != reflect.Struct || s.Type != "object" {
		return nil
	}
	// The decoder handles unknown fields, with better messages.
	s.AdditionalProperties = nil
	if s.Properties == nil {
		s.Properties = map[string]*jsonschema.Schema{}
	}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := s.Properties[name]
		if field.Anonymous || property == nil {
			continue
		}
		if err := d.constrain(field.Type, property); err != nil {
			return err
		}
		if err := limit(field.Tag, property); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		if field.Tag.Get("blank") == "no" {
			d.nonBlank[name] = true
		}
	}
	return nil
}

// simplify removes the type null, which the library allows for pointers and lists:
// the decoder treats null as missing.
func simplify(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
}

// limit sets what the tags of one field say.
func limit(tag reflect.StructTag, s *jsonschema.Schema) error {
	for key, bounds := range map[string]struct {
		number        **float64
		length, items **int
	}{
		"min": {&s.Minimum, &s.MinLength, &s.MinItems},
		"max": {&s.Maximum, &s.MaxLength, &s.MaxItems},
	} {
		text, set := tag.Lookup(key)
		if !set {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("tag %s: %w", key, err)
		}
		switch s.Type {
		case "integer", "number":
			*bounds.number = jsonschema.Ptr(float64(n))
		case "string":
			*bounds.length = &n
		case "array":
			*bounds.items = &n
		default:
			return fmt.Errorf("tag %s does not apply to the type %q", key, s.Type)
		}
	}
	if text, set := tag.Lookup("default"); set {
		s.Default = json.RawMessage(text)
		if s.Type == "string" {
			s.Default = json.RawMessage(strconv.Quote(text))
		}
	}
	if text, set := tag.Lookup("enum"); set {
		for _, value := range strings.Split(text, ",") {
			s.Enum = append(s.Enum, value)
		}
	}
	s.Pattern = tag.Get("pattern")
	return nil
}
