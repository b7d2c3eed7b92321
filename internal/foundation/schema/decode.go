package schema

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

// maxDepth bounds how deep an input may be nested.
const maxDepth = 32

// decoder brings a value into the form of a schema and collects what is wrong, so
// that the caller can mend everything at once.
type decoder struct {
	options  Options
	nonBlank map[string]bool
	// foreign leaves objects alone that may have fields which their schema does not list.
	foreign  bool
	problems []*fault.Error
}

// coerce returns an input in the form of the schema, without the fields that are
// wrong, and what is wrong with them.
func (d derived) coerce(input json.RawMessage, o Options) (map[string]any, []*fault.Error) {
	dec := &decoder{options: o, nonBlank: d.nonBlank}
	if len(bytes.TrimSpace(input)) == 0 || string(bytes.TrimSpace(input)) == "null" {
		input = json.RawMessage("{}")
	}
	given, err := decode(input)
	fields, isObject := given.(map[string]any)
	switch {
	case err != nil:
		dec.problem("input", "The input is not valid JSON: %s.", err)
	case !isObject:
		dec.problem("input", "The input must be a JSON object, not %s.", describe(given))
	default:
		return dec.object("", fields, d.resolved.Schema(), 0), dec.problems
	}
	return nil, dec.problems
}

func (d *decoder) problem(field, format string, args ...any) {
	d.problems = append(d.problems, fault.InvalidField(field, format, args...))
}

// asFault joins problems into one fault about the first field.
func asFault(problems []*fault.Error) error {
	all := *problems[0]
	for _, p := range problems[1:] {
		all.Message += " " + p.Message
	}
	return &all
}

// decode reads one JSON value and keeps its numbers as they are written, because
// ids of platforms are larger than a float can hold.
func decode(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the value")
	}
	return v, nil
}

// SameName returns what all spellings of a field name have in common.
func SameName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

func (d *decoder) object(path string, given map[string]any, schema *jsonschema.Schema, depth int) map[string]any {
	if depth > maxDepth {
		d.problem(path, "The input is nested deeper than %d levels.", maxDepth)
		return nil
	}
	if len(schema.Properties) == 0 || d.foreign && open(schema) {
		return given
	}
	named := d.names(path, given, schema)
	out := map[string]any{}
	for _, name := range schema.PropertyOrder {
		property, at := schema.Properties[name], join(path, name)
		value, set := named[name]
		if set && !absent(value, property) {
			if coerced, ok := d.value(at, value, property, depth+1); ok {
				out[name] = coerced
			}
			continue
		}
		switch {
		case len(property.Default) > 0:
			out[name] = property.Default
		case slices.Contains(schema.Required, name):
			d.problem(at, "%q is missing: it must be %s.", at, expected(property))
		}
	}
	return out
}

// absent reports whether a value counts as missing: null, or an empty string where a
// number or a boolean belongs.
func absent(value any, schema *jsonschema.Schema) bool {
	s, isString := value.(string)
	return value == nil || isString && strings.TrimSpace(s) == "" && slices.Contains([]string{"integer", "number", "boolean"}, schema.Type)
}

// names returns the values by the names of their properties.
func (d *decoder) names(path string, given map[string]any, schema *jsonschema.Schema) map[string]any {
	properties := slices.Sorted(maps.Keys(schema.Properties))
	named := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name := key
		if _, exact := schema.Properties[key]; !exact {
			i := slices.IndexFunc(properties, func(p string) bool { return SameName(p) == SameName(key) })
			if i < 0 {
				d.unknown(join(path, key), key, properties)
				continue
			}
			name = properties[i]
		}
		if _, twice := named[name]; twice && given[key] != nil {
			if !d.options.IgnoreUnknown {
				d.problem(join(path, name), "%q is given twice, in two spellings.", join(path, name))
			} else if name == key { // the exact spelling wins
				named[name] = given[key]
			}
		} else if given[key] != nil {
			named[name] = given[key]
		}
	}
	return named
}

func (d *decoder) unknown(at, key string, properties []string) {
	if d.options.IgnoreUnknown {
		return
	}
	hint := cmp.Or(fault.DidYouMean(key, properties), " The fields are: "+strings.Join(properties, ", ")+".")
	d.problems = append(d.problems, &fault.Error{Kind: fault.Invalid, Code: "unknown_field", Field: at, Message: fmt.Sprintf("There is no field %q.%s", at, hint)})
}

// value returns v in the form of its schema; ok is false if that is impossible.
func (d *decoder) value(at string, v any, schema *jsonschema.Schema, depth int) (out any, ok bool) {
	out, ok = v, true
	switch schema.Type {
	case "string":
		out, ok = toText(v)
	case "integer", "number":
		out, ok = toNumber(v, schema.Type == "integer")
	case "boolean":
		out, ok = toBool(v)
	case "array":
		return d.list(at, v, schema, depth)
	case "object":
		fields, isObject := toObject(v)
		if isObject {
			return d.object(at, fields, schema, depth), true
		}
		ok = false
	}
	if !ok || !within(out, schema) {
		d.problem(at, "%q must be %s, not %s.", at, expected(schema), describe(v))
		return nil, false
	}
	if s, isString := out.(string); isString && d.nonBlank[at] && strings.TrimSpace(s) == "" {
		d.problem(at, "%q must not be empty.", at)
		return nil, false
	}
	return out, true
}

func (d *decoder) list(at string, v any, schema *jsonschema.Schema, depth int) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if schema.MaxItems != nil && len(list) > *schema.MaxItems || schema.MinItems != nil && len(list) < *schema.MinItems {
		d.problem(at, "%q has %d values; it must be %s.", at, len(list), expected(schema))
		return nil, false
	}
	out := make([]any, 0, len(list))
	for i, one := range list {
		if schema.Items != nil {
			if one, ok = d.value(fmt.Sprintf("%s[%d]", at, i), one, schema.Items, depth+1); !ok {
				continue
			}
		}
		out = append(out, one)
	}
	return out, true
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

// maxExact is the largest integer that every JSON implementation keeps exactly.
const maxExact = 1 << 53

func toNumber(v any, whole bool) (any, bool) {
	n, ok := v.(json.Number)
	if s, isString := v.(string); isString {
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
	if err != nil || whole && (f != math.Trunc(f) || math.Abs(f) > maxExact) {
		return nil, false
	}
	if whole {
		return json.Number(strconv.FormatInt(int64(f), 10)), true
	}
	return n, true
}

func toBool(v any) (any, bool) {
	text, _ := toText(v)
	s, _ := text.(string)
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "t", "1", "yes":
		return true, true
	case "false", "f", "0", "no":
		return false, true
	}
	return nil, false
}

func toObject(v any) (map[string]any, bool) {
	if s, isString := v.(string); isString {
		parsed, err := decode([]byte(s))
		if err != nil {
			return nil, false
		}
		v = parsed
	}
	fields, ok := v.(map[string]any)
	return fields, ok
}

// within checks the limits for which a message can be clearer than the validator's.
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
