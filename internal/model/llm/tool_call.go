package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"

	"lilac/internal/foundation/chat"
)

// maxToolName is the longest tool name that every provider accepts in a history.
const maxToolName = 64

// SafeToolName replaces characters that providers refuse in tool names. Models
// invent names; without this, a provider would refuse every later request that has
// such a name in its history.
func SafeToolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxToolName)]
}

// The longest ids that OpenAI accepts: of a call in chat completions, of a call in Responses, and
// of a prompt cache.
const (
	MaxCallID     = 40
	MaxResponseID = 64
	MaxCacheKey   = 64
)

// ShortID returns an id that is too long for a provider in a shorter form. The same id always
// gets the same form, so that calls and their results still belong together.
func ShortID(id string, longest int) string {
	if len(id) <= longest {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "id_" + hex.EncodeToString(sum[:16])
}

// NineLetterID returns an id of nine letters and digits, the only form that Mistral accepts.
func NineLetterID(id string) string {
	isPlain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	const length = 9
	if len(id) == length && strings.IndexFunc(id, func(r rune) bool { return !isPlain(r) }) < 0 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:length]
}

// SafeToolInput returns the input of a tool call in a form that every provider
// accepts: a JSON object without lone surrogates, for which some refuse the whole
// request.
func SafeToolInput(p chat.Part) json.RawMessage {
	if len(p.Input) == 0 {
		return json.RawMessage(`{}`)
	}
	return replaceLoneSurrogates(p.Input)
}

// replaceLoneSurrogates replaces each escaped surrogate in JSON that is not part of
// a pair, such as \ud83d alone. Go accepts them, other parsers don't.
func replaceLoneSurrogates(raw json.RawMessage) json.RawMessage {
	var out []byte
	copied := 0 // bytes of raw that are in out
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		half, ok := escapedSurrogate(raw[i:])
		if !ok {
			i++ // the escaped character starts no escape of its own
			continue
		}
		const size = len(`\ud83d`)
		if other, ok := escapedSurrogate(raw[i+size:]); ok && utf16.DecodeRune(half, other) != '\uFFFD' {
			i += 2*size - 1
			continue
		}
		out = append(append(out, raw[copied:i]...), `\ufffd`...)
		copied = i + size
		i = copied - 1
	}
	if copied == 0 {
		return raw
	}
	return append(out, raw[copied:]...)
}

// escapedSurrogate reads an escaped surrogate at the start of raw.
func escapedSurrogate(raw []byte) (half rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil && utf16.IsSurrogate(rune(n))
}

// NewToolCall returns the tool-call part for a complete streamed input. An empty
// input means no arguments. An input that isn't a JSON object becomes {}; the
// original is kept in the provider options (see [Chunk]). The id and the name become valid
// UTF-8 here, because [DecodeString] leaves them as they are.
func NewToolCall(id, name, input string) chat.Part {
	id, name = strings.ToValidUTF8(id, "\uFFFD"), strings.ToValidUTF8(name, "\uFFFD")
	var object map[string]json.RawMessage
	if strings.TrimSpace(input) == "" {
		return chat.ToolCall(id, name, json.RawMessage(`{}`))
	}
	for _, candidate := range inputCandidates(input) {
		if json.Unmarshal([]byte(candidate), &object) == nil && object != nil {
			return chat.ToolCall(id, name, json.RawMessage(candidate))
		}
	}
	part := chat.ToolCall(id, name, json.RawMessage(`{}`))
	original, _ := json.Marshal(input) // strings always marshal
	part.ProviderOptions = ProviderOptions(lilacData, map[string]json.RawMessage{"invalidInput": original})
	return part
}

// maxCandidates bounds the texts that may be meant as an input.
const maxCandidates = 8

// inputCandidates returns the texts that may be meant as the input: the text itself, the
// content of a string (some servers encode twice), the object after an empty one
// (some servers send {} before the first delta), and the object after its own beginning (parsers
// of vLLM end a stream with the whole input, vllm#42167 and #51697).
func inputCandidates(input string) []string {
	out := []string{input}
	var inner string
	if json.Unmarshal([]byte(input), &inner) == nil {
		out = append(out, inner)
	}
	if rest, ok := strings.CutPrefix(strings.TrimSpace(input), "{}"); ok && rest != "" {
		out = append(out, rest)
	}
	for i := 1; i <= len(input)/2 && len(out) < maxCandidates; i++ {
		if input[i] == '{' && strings.HasPrefix(input[i:], input[:i]) {
			out = append(out, input[i:])
		}
	}
	return out
}
