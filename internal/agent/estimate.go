package agent

import (
	"unicode/utf8"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

const (
	// messageTokens and partTokens stand for the frame that a provider puts around each.
	messageTokens = 4
	partTokens    = 4
	// mediaTokens is about what a large image costs; a document is capped at maxMediaTokens.
	mediaTokens    = 1_600
	maxMediaTokens = 32_000
)

// EstimateTokens says roughly how many tokens the messages are: a token for
// four ASCII characters or one other rune, a flat price for an image. It errs
// on the high side for prose; what it misses, a context_length error catches.
func EstimateTokens(messages []chat.Message) int {
	n := 0
	for _, m := range messages {
		n += messageTokens
		for _, p := range m.Parts {
			n += partTokens + textTokens(p.Text) + rawTokens(p.Input) + rawTokens(p.Output) + textTokens(p.ToolName)
			switch {
			case p.Type == chat.TypeImage:
				n += mediaTokens
			case len(p.Data) > 0:
				n += min(maxMediaTokens, max(mediaTokens, len(p.Data)/4))
			}
		}
	}
	return n
}

// overheadTokens is what goes with every prompt beside the conversation.
func overheadTokens(system string, tools []llm.ToolSpec) int {
	n := textTokens(system)
	for _, t := range tools {
		n += messageTokens + textTokens(t.Name) + textTokens(t.Description) + rawTokens(t.Schema)
	}
	return n
}

func rawTokens(raw []byte) int { return countTokens(len(raw), utf8.RuneCount(raw)) }

func textTokens(s string) int { return countTokens(len(s), utf8.RuneCountInString(s)) }

// countTokens takes runes as ASCII unless they are longer than a byte: with b
// bytes and r runes, at most b-r runes are not ASCII.
func countTokens(bytes, runes int) int {
	other := min(runes, bytes-runes)
	return (runes-other+3)/4 + other
}
