package llmtest

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed testdata/openai/requests.schema.json
var openAIRequests []byte

// openAISchema validates the bodies of one of OpenAI's APIs. It is compiled when it is first
// used. The entries of a conversation and the tools are validated alone, and once in a
// process: every call repeats those of the call before it.
type openAISchema struct {
	body, list, entry string // the schemas of the body and of an entry of its list
	tool              string // the schema of a tool, "" for that of chat completions
	example           string // the smallest valid entry

	once    sync.Once
	err     error
	schemas map[string]*jsonschema.Schema

	mu   sync.Mutex // guards seen
	seen map[[sha256.Size]byte]bool
}

// maxSeen bounds how many valid entries are remembered.
const maxSeen = 100_000

var openAISchemas = map[Protocol]*openAISchema{
	OpenAI:    {body: "CreateChatCompletionRequest", list: "messages", entry: "ChatCompletionRequestMessage", tool: "ChatCompletionTool", example: `{"role":"user","content":"x"}`},
	Responses: {body: "CreateResponse", list: "input", entry: "InputItem", tool: "Tool", example: `{"role":"user","content":"x"}`},
}

func (s *openAISchema) compile() error {
	s.once.Do(func() {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAIRequests))
		if err != nil {
			s.err = fmt.Errorf("decode schema: %w", err)
			return
		}
		compiler := jsonschema.NewCompiler()
		if s.err = compiler.AddResource("openai.json", document); s.err != nil {
			return
		}
		s.schemas, s.seen = map[string]*jsonschema.Schema{}, map[[sha256.Size]byte]bool{}
		for _, name := range []string{s.body, s.entry, s.tool} {
			if s.schemas[name], err = compiler.Compile("openai.json#/$defs/" + name); err != nil {
				s.err = fmt.Errorf("compile schema %s: %w", name, err)
			}
		}
	})
	return s.err
}

// validate reports how a value differs from a schema.
func (s *openAISchema) validate(name string, raw json.RawMessage) error {
	key := sha256.Sum256(append([]byte(name+" "), raw...))
	s.mu.Lock()
	seen := s.seen[key]
	s.mu.Unlock()
	if seen {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if err := s.schemas[name].Validate(value); err != nil {
		return fmt.Errorf("%w\nin: %.2000s", err, raw)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) < maxSeen {
		s.seen[key] = true
	}
	return nil
}

// ValidateBody reports how the body of a call differs from OpenAI's description of its
// API, which accepts no unknown fields, or from the known fields of Anthropic's Messages.
func ValidateBody(protocol Protocol, body []byte) error {
	if protocol == Anthropic {
		return checkAnthropic(body)
	}
	s := openAISchemas[protocol]
	if err := s.compile(); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("decode body: %w", err)
	}
	for list, schema := range map[string]string{s.list: s.entry, "tools": s.tool} {
		var entries []json.RawMessage
		if json.Unmarshal(fields[list], &entries) != nil || len(entries) == 0 {
			continue // the schema of the body decides about it
		}
		for i, entry := range entries {
			if err := s.validate(schema, entry); err != nil {
				return fmt.Errorf("%s[%d]: %w", list, i, err)
			}
		}
		fields[list] = json.RawMessage("[" + string(entries[0]) + "]")
		if list == s.list {
			fields[list] = json.RawMessage("[" + s.example + "]")
		}
	}
	return s.validate(s.body, encode(fields))
}
