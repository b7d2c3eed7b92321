package schema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/schema"
)

// The schemas are those that servers of tools publish and hosts refuse.
func TestAPlainSchemaHasWhatAllHostsAccept(t *testing.T) {
	const empty = `{"type":"object"}`
	field := func(schema string) string { return `{"properties":{"x":` + schema + `},"type":"object"}` }
	for name, tt := range map[string]struct{ schema, want string }{
		"a plain one":                   {field(`{"description":"The x.","type":"string"}`), field(`{"description":"The x.","type":"string"}`)},
		"nothing":                       {``, empty},
		"no JSON":                       {`{"type":`, empty},
		"true":                          {`true`, empty},
		"no object":                     {`{"type":"string"}`, empty},
		"no fields":                     {`{"type":"object"}`, empty},
		"no type":                       {`{"properties":{"x":{"type":"integer"}}}`, field(`{"type":"integer"}`)},
		"an identifier":                 {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":false,"properties":{}}`, empty},
		"a long text":                   {field(`{"type":"string","minLength":1,"maxLength":65536,"format":"uri","default":""}`), field(`{"type":"string"}`)},
		"a pattern":                     {field(`{"type":"string","pattern":"\\S"}`), field(`{"type":"string"}`)},
		"limits":                        {field(`{"type":"integer","minimum":0,"exclusiveMaximum":9007199254740991}`), field(`{"type":"integer"}`)},
		"any value":                     {field(`true`), field(`{"type":"string"}`)},
		"an empty schema":               {field(`{}`), field(`{"type":"string"}`)},
		"a word instead of a schema":    {field(`"object"`), field(`{"type":"string"}`)},
		"an unknown type":               {field(`{"type":"file"}`), field(`{"type":"string"}`)},
		"a type or null":                {field(`{"type":["null","array"],"items":{"type":"number"}}`), field(`{"items":{"type":"number"},"type":"array"}`)},
		"an optional value":             {field(`{"anyOf":[{"type":"null"},{"type":"boolean"}],"default":null}`), field(`{"type":"boolean"}`)},
		"zod's optional value":          {field(`{"anyOf":[{"not":{}},{"type":"string"}]}`), field(`{"type":"string"}`)},
		"a description of alternatives": {field(`{"description":"A or b.","oneOf":[{"type":"string","description":"A."},{"type":"number"}]}`), field(`{"description":"A or b.","type":"string"}`)},
		"alternatives at the top": {
			`{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"],"anyOf":[{"required":["x"]},{"required":["y"]}]}`,
			`{"properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"],"type":"object"}`,
		},
		"alternative objects": {
			`{"oneOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"type":"object","properties":{"y":{"type":"string"}}}]}`,
			field(`{"type":"string"}`),
		},
		"all of some": {
			`{"allOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]},{"properties":{"y":{"type":"string"}}}]}`,
			`{"properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["x"],"type":"object"}`,
		},
		"words":                       {field(`{"enum":["a","b","a",""]}`), field(`{"enum":["a","b"],"type":"string"}`)},
		"no words":                    {field(`{"type":"string","enum":[]}`), field(`{"type":"string"}`)},
		"numbers as words":            {field(`{"enum":[1,2]}`), field(`{"type":"number"}`)},
		"words of a list":             {field(`{"type":"array","enum":["a"],"items":{"type":"string","enum":["a"]}}`), field(`{"items":{"enum":["a"],"type":"string"},"type":"array"}`)},
		"one word":                    {field(`{"const":"a"}`), field(`{"enum":["a"],"type":"string"}`)},
		"a list without items":        {field(`{"type":"array"}`), field(`{"items":{"type":"string"},"type":"array"}`)},
		"a tuple":                     {field(`{"type":"array","items":[{"type":"number"},{"type":"string"}]}`), field(`{"items":{"type":"number"},"type":"array"}`)},
		"a map":                       {field(`{"type":"object","additionalProperties":{}}`), field(`{"type":"object"}`)},
		"fields of what is no object": {field(`{"type":"string","properties":{"y":{}},"required":["y"]}`), field(`{"type":"string"}`)},
		"required fields": {
			`{"type":"object","properties":{"x":{"type":"string"}},"required":["x","missing",7,"x"]}`,
			`{"properties":{"x":{"type":"string"}},"required":["x"],"type":"object"}`,
		},
		"a reference": {
			`{"type":"object","properties":{"x":{"$ref":"#/$defs/a~1b","description":"Mine."}},"$defs":{"a/b":{"type":"integer","description":"Its."}}}`,
			field(`{"description":"Mine.","type":"integer"}`),
		},
		"a reference to a field": {
			`{"type":"object","properties":{"x":{"type":"array","items":{"$ref":"#/properties/y"}},"y":{"type":"object"}}}`,
			`{"properties":{"x":{"items":{"type":"object"},"type":"array"},"y":{"type":"object"}},"type":"object"}`,
		},
		"a reference to another document": {field(`{"$ref":"https://example.com/x.json"}`), field(`{"type":"string"}`)},
		"a reference to itself":           {field(`{"$ref":"#/properties/x"}`), field(`{"type":"string"}`)},
		"too long":                        {field(`{"type":"string","description":"` + strings.Repeat("x", 64<<10) + `"}`), empty},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plain(t, tt.schema); got != tt.want {
				t.Errorf("%s\nbecomes %s\nwant    %s", tt.schema, got, tt.want)
			}
		})
	}
}

// plain returns the JSON of a plain schema.
func plain(t *testing.T, given string) string {
	t.Helper()
	text, err := json.Marshal(schema.Plain(json.RawMessage(given), "string"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An endless schema ends where models would get lost in it.
func TestAnEndlessSchemaEnds(t *testing.T) {
	tree := `{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`
	wide := `{"allOf":[` + strings.Repeat(`{"$ref":"#"},`, 30) + `{"type":"object"}]}`
	for _, given := range []string{tree, wide} {
		got := plain(t, given)
		if len(got) > 200<<10 {
			t.Errorf("%s becomes %d bytes", given, len(got))
		}
	}
}

func FuzzAPlainSchemaIsPlain(f *testing.F) {
	for _, given := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"c":{"type":["array","null"],"items":{"enum":["x"]}}},"$defs":{"b":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}`,
		`{"allOf":[{"properties":{"a":true}},{"required":["a"]}],"const":1}`, `[]`, `{"properties":[]}`, `{"items":[[]]}`,
	} {
		f.Add(given)
	}
	f.Fuzz(func(t *testing.T, given string) {
		got := plain(t, given)
		var root map[string]any
		if err := json.Unmarshal([]byte(got), &root); err != nil || root["type"] != "object" {
			t.Fatalf("%q becomes %s: %v", given, got, err)
		}
		checkPlain(t, root)
		if again := plain(t, got); len(got) <= 64<<10 && again != got {
			t.Errorf("%s becomes %s", got, again)
		}
	})
}

func checkPlain(t *testing.T, part map[string]any) {
	t.Helper()
	for key, value := range part {
		switch key {
		case "properties":
			for _, field := range value.(map[string]any) {
				checkPlain(t, field.(map[string]any))
			}
		case "items":
			checkPlain(t, value.(map[string]any))
		default:
			if !slices.Contains([]string{"type", "description", "required", "enum"}, key) {
				t.Errorf("there is a %q", key)
			}
		}
	}
}
