package llm

import (
	"encoding/json"

	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/schema"
)

// schemaRefused matches refusals of the schema of a tool. Hosts accept different parts of JSON
// Schema, and one schema that they do not accept makes them refuse the whole call.
var schemaRefused = lazyregexp.New(`(?i)schema|grammar|function_?declarations?|functions?\.parameters|invalid_function_parameters`)

// isSchemaRefused reports whether a refusal may be about the schema of a tool.
func isSchemaRefused(e ProviderError) bool {
	return schemaRefused().MatchString(e.Message) || schemaRefused().MatchString(e.Param) || schemaRefused().MatchString(e.Code)
}

// ToolSchema returns the schema of a tool as the endpoint accepts it. The tool itself checks what it
// gets.
func (f Facts) ToolSchema(given json.RawMessage) json.RawMessage {
	switch {
	case f.PlainSchemas:
		return plainObject(given)
	case len(given) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return given
}

// plainObject reduces a schema to what all hosts accept: some refuse an object without a list of
// fields, and a value without a type.
func plainObject(given json.RawMessage) json.RawMessage {
	root := struct {
		*schema.Part
		Properties map[string]*schema.Part `json:"properties"`
	}{Part: schema.Plain(given, "string")}
	if root.Properties = root.Part.Properties; root.Properties == nil {
		root.Properties = map[string]*schema.Part{}
	}
	text, err := json.Marshal(root)
	if err != nil { // texts always marshal
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return text
}
