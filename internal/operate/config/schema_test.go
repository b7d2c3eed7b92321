package config_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/operate/config"
)

// Every setting that has a default has it in the schema, and therefore in the reference.
func TestTheSchemaNamesEveryDefault(t *testing.T) {
	schema, err := config.Schema()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := json.Unmarshal(data, &defaults); err != nil {
		t.Fatal(err)
	}
	delete(defaults, "providers") // the schema describes the built-in providers by name only
	named := 0
	var compare func(prefix string, at *jsonschema.Schema, values map[string]any)
	compare = func(prefix string, at *jsonschema.Schema, values map[string]any) {
		for key, want := range values {
			below := at.Properties[key]
			if inner, is := want.(map[string]any); is {
				compare(prefix+key+".", below, inner)
				continue
			}
			var got any
			if len(below.Default) > 0 {
				if err := json.Unmarshal(below.Default, &got); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s%s: %s", prefix, key, diff)
			}
			named++
		}
	}
	compare("", schema, defaults)
	if named < 30 {
		t.Errorf("control: only %d settings were compared", named)
	}
}
