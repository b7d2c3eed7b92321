package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// expected says in words which values a schema accepts.
func expected(schema *jsonschema.Schema) string {
	if len(schema.Enum) > 0 {
		names := make([]string, len(schema.Enum))
		for i, e := range schema.Enum {
			names[i] = fmt.Sprint(e)
		}
		return "one of " + strings.Join(names, ", ")
	}
	switch schema.Type {
	case "string":
		return "a string" + between(bound(schema.MinLength), bound(schema.MaxLength), "%s to %s", " of %s characters")
	case "integer":
		return "a whole number" + between(schema.Minimum, schema.Maximum, "between %s and %s", " %s")
	case "number":
		return "a number" + between(schema.Minimum, schema.Maximum, "between %s and %s", " %s")
	case "boolean":
		return "true or false"
	case "array":
		return "a list" + between(bound(schema.MinItems), bound(schema.MaxItems), "%s to %s", " of %s values")
	case "object":
		return "a JSON object"
	}
	return "a JSON value"
}

func bound(n *int) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// between describes a range: both joins its ends, format frames it.
func between(low, high *float64, both, format string) string {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf(format, fmt.Sprintf(both, number(*low), number(*high)))
	case low != nil:
		return fmt.Sprintf(format, "at least "+number(*low))
	case high != nil:
		return fmt.Sprintf(format, "at most "+number(*high))
	}
	return ""
}

// describe names a value that was given, without repeating a long text.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if n := utf8.RuneCountInString(v); n > 40 {
			return fmt.Sprintf("a string of %d characters", n)
		}
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
