package llm_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"lilac/internal/model/llm"
)

// The schemas are those that servers of tools publish and hosts refuse.
func TestAPlainSchemaHasWhatAllHostsAccept(t *testing.T) {
	const empty = `{"properties":{},"type":"object"}`
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
			if got := string(llm.PlainSchema(json.RawMessage(tt.schema))); got != tt.want {
				t.Errorf("%s\nbecomes %s\nwant    %s", tt.schema, got, tt.want)
			}
		})
	}
}

// An endless schema ends where models would get lost in it.
func TestAnEndlessSchemaEnds(t *testing.T) {
	tree := `{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`
	wide := `{"allOf":[` + strings.Repeat(`{"$ref":"#"},`, 30) + `{"type":"object"}]}`
	for _, schema := range []string{tree, wide} {
		got := llm.PlainSchema(json.RawMessage(schema))
		if len(got) > 200<<10 || !json.Valid(got) {
			t.Errorf("%s becomes %d bytes", schema, len(got))
		}
	}
}

// Each host has its own words for a schema that it does not accept.
func TestARefusedSchemaMakesAllPlain(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   bool
	}{
		{400, `{"error":{"code":400,"message":"Failed to initialize samplers: failed to parse grammar","type":"invalid_request_error"}}`, true},
		{500, `{"error":{"code":500,"message":"JSON schema conversion failed:\nPattern must start with '^' and end with '$'","type":"server_error"}}`, true},
		{400, `{"error":{"code":400,"message":"Unable to generate parser for this template. Automatic parser generation failed: JSON schema error at #/properties/command: schema must be an object","type":"invalid_request_error"}}`, true},
		{400, `{"error":{"message":"Invalid schema for function 'get_me': In context=(), object schema missing properties.","type":"invalid_request_error","param":"tools[13].function.parameters","code":"invalid_function_parameters"}}`, true},
		{400, `{"error":{"message":"Invalid 'tools[0]'.","code":"invalid_function_parameters"}}`, true},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.77.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"}}`, true},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"tools.13.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"}}`, true},
		{400, `{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[8].parameters.properties[1].value.items': Cannot find field.","status":"INVALID_ARGUMENT"}}`, true},
		{400, `{"error":{"code":400,"message":"* GenerateContentRequest.tools[0].function_declarations[9].parameters.properties[truncateMode].enum: only allowed for STRING type","status":"INVALID_ARGUMENT"}}`, true},
		{400, "{\"error\":{\"message\":\"Unable to submit request because `create-field` functionDeclaration `parameters.data.meta.width` schema didn't specify the schema type field.\"}}", true},
		{400, `{"object":"error","message":"The provided JSON schema contains features not supported by xgrammar.","type":"BadRequestError"}`, true},
		{400, `{"error":{"message":"Invalid request: tools.function.parameters is not a valid moonshot flavored json schema, details: <At path 'properties.x': type is not defined>"}}`, true},
		{400, `{"message":"The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object."}`, true},
		{401, `{"error":{"message":"Invalid schema for function 'x'"}}`, false},
		{503, `{"error":{"message":"grammar workers are busy"}}`, false},
		{400, `{"error":{"message":"Invalid value for temperature"}}`, false},
	} {
		_, e := refusal(t, c.status, nil, c.body)
		learned := &llm.Learned{}
		if _, again := learned.Learn(e, llm.Sent{}); again || learned.Facts().PlainSchemas {
			t.Errorf("without tools, something was learned from %s", c.body)
		}
		_, again := learned.Learn(e, llm.Sent{Tools: true})
		if got := learned.Facts().PlainSchemas; got != c.want || again != c.want {
			t.Errorf("plain is %t, and the call is repeated: %t; want %t: %s", got, again, c.want, c.body)
		}
		if _, again := learned.Learn(e, llm.Sent{Tools: true}); again {
			t.Errorf("the call is repeated again after %s", c.body)
		}
	}
}

func FuzzAPlainSchemaIsPlain(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"c":{"type":["array","null"],"items":{"enum":["x"]}}},"$defs":{"b":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}`,
		`{"allOf":[{"properties":{"a":true}},{"required":["a"]}],"const":1}`, `[]`, `{"properties":[]}`, `{"items":[[]]}`,
	} {
		f.Add(schema)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		plain := llm.PlainSchema(json.RawMessage(schema))
		var root map[string]any
		if err := json.Unmarshal(plain, &root); err != nil || root["type"] != "object" || root["properties"] == nil {
			t.Fatalf("%q becomes %s: %v", schema, plain, err)
		}
		checkPlain(t, root)
		if again := llm.PlainSchema(plain); len(plain) <= 64<<10 && !bytes.Equal(again, plain) {
			t.Errorf("%s becomes %s", plain, again)
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
