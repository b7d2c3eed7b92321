package llmtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed testdata/openai/responses.schema.json
var openAIAnswers []byte

var answerCompiler = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAIAnswers))
	if err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	return compiler, compiler.AddResource("answers.json", document)
})

// answersMu guards the compiler.
var answersMu sync.Mutex

// ValidateAnswer reports how an answer differs from a schema of OpenAI's description of its
// API, for example Response.
func ValidateAnswer(schema string, answer []byte) error {
	answersMu.Lock()
	defer answersMu.Unlock()
	compiler, err := answerCompiler()
	if err != nil {
		return err
	}
	compiled, err := compiler.Compile("answers.json#/$defs/" + schema)
	if err != nil {
		return fmt.Errorf("compile schema %s: %w", schema, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(answer))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("%w\nin: %.2000s", err, answer)
	}
	return nil
}
