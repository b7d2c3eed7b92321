package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// WriteDefaults writes a configuration file that lists every key with its description and default.
// Loading the unmodified file changes nothing: keys without a default are commented out.
func WriteDefaults(w io.Writer) error {
	schema, err := Schema()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Lilac's configuration with its defaults. A line that begins with \"# key:\" has none.\n")
	writeKeys(&b, schema, "")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write defaults: %w", err)
	}
	return nil
}

// writeKeys writes the keys of an object. If indent starts a comment, all keys are commented out.
func writeKeys(b *strings.Builder, s *jsonschema.Schema, indent string) {
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		if indent == "" {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "%s# %s\n", indent, p.Description)
		named := p.AdditionalProperties
		switch {
		case named != nil && len(named.Properties) > 0:
			fmt.Fprintf(b, "%s# %s:\n%s#   NAME:\n", indent, name, indent)
			writeKeys(b, named, indent+"#     ")
		case len(p.Properties) > 0:
			comment := ""
			if !hasDefault(p) {
				comment = "# "
			}
			fmt.Fprintf(b, "%s%s%s:\n", indent, comment, name)
			writeKeys(b, p, indent+comment+"  ")
		case len(p.Default) > 0:
			fmt.Fprintf(b, "%s%s: %s\n", indent, name, p.Default)
		default:
			fmt.Fprintf(b, "%s# %s:%s\n", indent, name, choices(p))
		}
	}
}

func choices(p *jsonschema.Schema) string {
	if len(p.Enum) == 0 {
		return ""
	}
	data, _ := json.Marshal(p.Enum) // strings always encode
	return " one of " + string(data)
}

// hasDefault reports whether a key below p has a default. If so, p must be written as a real key,
// because its children need a parent.
func hasDefault(p *jsonschema.Schema) bool {
	for _, below := range p.Properties {
		if len(below.Default) > 0 || hasDefault(below) {
			return true
		}
	}
	return false
}
