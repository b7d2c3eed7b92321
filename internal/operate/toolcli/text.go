package toolcli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"lilac/internal/foundation/schema"
	"lilac/internal/foundation/text"
	"lilac/internal/serve/toolwire"
)

// printJSON prints a value with indentation and keeps the server's order of fields.
func (c Command) printJSON(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return c.print(string(text.SanitizeJSON(buf.Bytes())))
}

// valueText formats a value for people: a string as it is, a list with one line for each
// entry, and an object with one line for each field.
func valueText(raw json.RawMessage) (string, error) {
	var b strings.Builder
	var list []json.RawMessage
	var fields map[string]json.RawMessage
	switch {
	case len(raw) == 0:
	case raw[0] == '[':
		if err := json.Unmarshal(raw, &list); err != nil {
			return "", fmt.Errorf("read value: %w", err)
		}
		for _, one := range list {
			b.WriteString(line(one) + "\n")
		}
	case raw[0] == '{':
		if err := json.Unmarshal(raw, &fields); err != nil {
			return "", fmt.Errorf("read value: %w", err)
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			b.WriteString(text.Sanitize(name) + ": " + line(fields[name]) + "\n")
		}
	default:
		b.WriteString(line(raw) + "\n")
	}
	return b.String(), nil
}

// line formats one value: a string without quotes, everything else as JSON.
func line(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return text.Sanitize(s)
	}
	return text.Sanitize(string(raw))
}

// kebab returns the flag for a field.
func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteRune('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// writeFields writes a line for each field of an object, and below it those of the fields that are
// objects or lists of objects.
func writeFields(b *strings.Builder, object *schema.Part, indent string, flag func(name string) string) {
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field := object.Properties[name]
		kind, inner := field.Type, field
		for ; inner.Type == "array" && inner.Items != nil; inner = inner.Items {
			kind += " of " + inner.Items.Type
		}
		if len(inner.Enum) > 0 {
			kind += ": " + strings.Join(inner.Enum, ", ")
		}
		if slices.Contains(object.Required, name) {
			kind += "; needed"
		}
		line := fmt.Sprintf("%s%s (%s)  %s", indent, flag(name), kind, strings.Join(strings.Fields(field.Description), " "))
		b.WriteString(text.Sanitize(strings.TrimRight(line, " ")) + "\n")
		writeFields(b, inner, strings.Repeat(" ", len(indent)+2), func(name string) string { return name })
	}
}

func helpText(h toolwire.Help) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", h.ID, text.Sanitize(h.Summary.Summary))
	if h.Description != "" {
		b.WriteString("\n" + text.Sanitize(h.Description) + "\n")
	}
	input := schema.Plain(h.Input, "any")
	if len(input.Properties) > 0 {
		b.WriteString("\nFields:\n")
	}
	writeFields(&b, input, "  --", kebab)
	if h.Changes {
		b.WriteString("\nIt changes something.\n")
	}
	if h.Repeatable {
		b.WriteString("\nIt may be repeated when its outcome is unknown.\n")
	}
	if len(h.Examples) > 0 {
		b.WriteString("\nExamples:\n  " + text.Sanitize(strings.Join(h.Examples, "\n  ")) + "\n")
	}
	return b.String()
}
