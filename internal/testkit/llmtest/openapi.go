package llmtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed testdata/openai/requests.schema.json
var openAIRequests []byte

// The schemas of OpenAI's description by the protocol of the body.
var openAISchemas = map[Protocol]string{OpenAI: "CreateChatCompletionRequest", Responses: "CreateResponse"}

var compileOpenAI = sync.OnceValues(func() (map[Protocol]*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAIRequests))
	if err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("openai.json", document); err != nil {
		return nil, fmt.Errorf("add schema: %w", err)
	}
	out := map[Protocol]*jsonschema.Schema{}
	for protocol, name := range openAISchemas {
		if out[protocol], err = compiler.Compile("openai.json#/$defs/" + name); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", name, err)
		}
	}
	return out, nil
})

// ValidateBody reports how the body of a call differs from OpenAI's description of its
// API, which accepts no unknown fields. Protocols of other vendors have no description.
func ValidateBody(protocol Protocol, body []byte) error {
	schemas, err := compileOpenAI()
	if err != nil {
		return err
	}
	schema := schemas[protocol]
	if schema == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w\nbody: %.2000s", err, body)
	}
	return nil
}
