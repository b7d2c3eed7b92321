package toolserver

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/foundation/fault"
)

// expected says in words what a value has to be.
func expected(schema *jsonschema.Schema) string {
	if len(schema.Enum) > 0 {
		words := make([]string, len(schema.Enum))
		for i, e := range schema.Enum {
			words[i] = fmt.Sprint(e)
		}
		return "one of " + strings.Join(words, ", ")
	}
	switch schema.Type {
	case "string":
		return "text" + between(bound(schema.MinLength), bound(schema.MaxLength), "%s to %s", " of %s characters")
	case "integer":
		return "a whole number" + between(schema.Minimum, schema.Maximum, "from %s to %s", " %s")
	case "number":
		return "a number" + between(schema.Minimum, schema.Maximum, "from %s to %s", " %s")
	case "boolean":
		return "true or false"
	case "array":
		return "a list" + between(bound(schema.MinItems), bound(schema.MaxItems), "%s to %s", " of %s values")
	case "object":
		return "a JSON object"
	}
	return "a value"
}

func bound(n *int) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

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

// didYouMean is the question, after a blank, whether a near name was meant; ""
// if none is near.
func didYouMean(word string, names []string) string {
	near := fault.Near(word, names)
	if len(near) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(near, " or ") + "?"
}

// describe says what was given, without repeating a long text.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if n := utf8.RuneCountInString(v); n > 40 {
			return fmt.Sprintf("a text of %d characters", n)
		}
		return strconv.Quote(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v)
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
