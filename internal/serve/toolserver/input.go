package toolserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/foundation/fault"
)

// maxDepth bounds how deep an input is nested.
const maxDepth = 32

// accept brings an input into the form of the schema and checks it: names may
// be written in kebab, snake or camel case, a number, a boolean or an object as
// text, a list of one without being a list. What is null counts as left out.
func (r registered) accept(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	given, err := decode(raw)
	if err != nil {
		return nil, fault.InvalidField("input", "The input is not JSON: %s.", err)
	}
	fields, ok := given.(map[string]any)
	if !ok {
		return nil, fault.InvalidField("input", "The input has to be a JSON object, not %s.", describe(given))
	}
	schema, err := r.input()
	if err != nil {
		return nil, err
	}
	value, err := coerceObject("", fields, schema.Schema(), 0)
	if err != nil {
		return nil, err
	}
	out, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode input: %w", err)
	}
	var plain any
	if err := json.Unmarshal(out, &plain); err != nil {
		return nil, fault.InvalidField("input", "The input holds a number that is too large.")
	}
	if err := schema.Validate(plain); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The input does not fit; tools help %s says what does", r.ID)
	}
	return out, nil
}

// decode reads one JSON value and keeps its numbers as they are written: ids
// of platforms are larger than a float can hold.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

// sameName is what the spellings of a name have in common.
func sameName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

func coerceObject(at string, given map[string]any, schema *jsonschema.Schema, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fault.InvalidField(at, "The input is nested deeper than %d levels.", maxDepth)
	}
	if len(schema.Properties) == 0 {
		return given, nil
	}
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name, err := property(at, key, schema)
		if err != nil {
			return nil, err
		}
		if given[key] == nil {
			continue
		}
		if _, twice := out[name]; twice {
			return nil, fault.InvalidField(join(at, name), "%s is given twice, in two spellings.", join(at, name))
		}
		if out[name], err = coerce(join(at, name), given[key], schema.Properties[name], depth+1); err != nil {
			return nil, err
		}
	}
	for name, p := range schema.Properties {
		if _, set := out[name]; !set && len(p.Default) > 0 {
			out[name] = p.Default
		}
	}
	for _, name := range schema.Required {
		if _, set := out[name]; !set {
			return nil, fault.InvalidField(join(at, name), "%s is missing: %s.", join(at, name), expected(schema.Properties[name]))
		}
	}
	return out, nil
}

// property finds the property that a key means.
func property(at, key string, schema *jsonschema.Schema) (string, error) {
	if _, exact := schema.Properties[key]; exact {
		return key, nil
	}
	names := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range names {
		if sameName(name) == sameName(key) {
			return name, nil
		}
	}
	rest := cmp.Or(didYouMean(key, names), " There is: "+strings.Join(names, ", ")+".")
	return "", &fault.Error{Kind: fault.Invalid, Code: "unknown_field", Field: join(at, key), Message: fmt.Sprintf("There is no field %q.%s", join(at, key), rest)}
}

func coerce(at string, v any, schema *jsonschema.Schema, depth int) (any, error) {
	out, ok := v, true
	switch schema.Type {
	case "string":
		out, ok = toText(v)
	case "integer", "number":
		out, ok = toNumber(v, schema.Type == "integer")
	case "boolean":
		out, ok = toBool(v)
	case "array":
		return coerceList(at, v, schema, depth)
	case "object":
		fields, is := toObject(v)
		if is {
			return coerceObject(at, fields, schema, depth)
		}
		ok = false
	}
	if !ok || !within(out, schema) {
		return nil, fault.InvalidField(at, "%s has to be %s, not %s.", at, expected(schema), describe(v))
	}
	return out, nil
}

func coerceList(at string, v any, schema *jsonschema.Schema, depth int) (any, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if schema.MaxItems != nil && len(list) > *schema.MaxItems || schema.MinItems != nil && len(list) < *schema.MinItems {
		return nil, fault.InvalidField(at, "%s has %d values; it has to be %s.", at, len(list), expected(schema))
	}
	out := make([]any, len(list))
	for i, one := range list {
		var err error
		if schema.Items == nil {
			out[i] = one
		} else if out[i], err = coerce(fmt.Sprintf("%s[%d]", at, i), one, schema.Items, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func toText(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return nil, false
}

func toNumber(v any, whole bool) (any, bool) {
	n, ok := v.(json.Number)
	if s, is := v.(string); is {
		parsed, err := decode([]byte(strings.TrimSpace(s)))
		if err != nil {
			return nil, false
		}
		n, ok = parsed.(json.Number)
	}
	if !ok {
		return nil, false
	}
	f, err := n.Float64()
	if err != nil || whole && f != math.Trunc(f) {
		return nil, false
	}
	if whole {
		if math.Abs(f) > 1<<53 {
			return nil, false
		}
		return json.Number(strconv.FormatInt(int64(f), 10)), true
	}
	return n, true
}

func toBool(v any) (any, bool) {
	text, ok := toText(v)
	if !ok {
		return nil, false
	}
	b, err := strconv.ParseBool(text.(string))
	return b, err == nil
}

func toObject(v any) (map[string]any, bool) {
	if s, is := v.(string); is {
		parsed, err := decode([]byte(s))
		if err != nil {
			return nil, false
		}
		v = parsed
	}
	fields, ok := v.(map[string]any)
	return fields, ok
}

// within checks what a person can be told better than by the validator.
func within(v any, schema *jsonschema.Schema) bool {
	if len(schema.Enum) > 0 && !slices.ContainsFunc(schema.Enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
		return false
	}
	switch v := v.(type) {
	case string:
		n := utf8.RuneCountInString(v)
		return (schema.MinLength == nil || n >= *schema.MinLength) && (schema.MaxLength == nil || n <= *schema.MaxLength)
	case json.Number:
		f, _ := v.Float64() // toNumber has read it
		return (schema.Minimum == nil || f >= *schema.Minimum) && (schema.Maximum == nil || f <= *schema.Maximum)
	}
	return true
}
