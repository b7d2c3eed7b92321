package llm_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/model/llm"
)

// Some hosts want a list of fields, even if it is empty, and a type for every value.
func TestASchemaIsPlainOnlyIfTheHostWantsThat(t *testing.T) {
	for given, want := range map[string][2]string{
		``:                  {`{"type":"object","properties":{}}`, `{"type":"object","properties":{}}`},
		`{"type":"object"}`: {`{"type":"object"}`, `{"type":"object","properties":{}}`},
		`{"type":"object","properties":{"x":true,"y":{"type":"string","maxLength":65536}},"required":["y"]}`: {
			`{"type":"object","properties":{"x":true,"y":{"type":"string","maxLength":65536}},"required":["y"]}`,
			`{"required":["y"],"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}`,
		},
	} {
		for i, facts := range []llm.Facts{{}, {PlainSchemas: true}} {
			if got := string(facts.ToolSchema(json.RawMessage(given))); got != want[i] {
				t.Errorf("%s becomes %s, want %s", given, got, want[i])
			}
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
