package agent

import (
	"unicode/utf8"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

const (
	// messageTokens and partTokens are the overhead of each message and part.
	messageTokens = 4
	partTokens    = 4
	// mediaTokens is roughly the cost of a large image; a document costs at most
	// maxMediaTokens.
	mediaTokens    = 1_600
	maxMediaTokens = 32_000
)

// EstimateTokens returns a rough number of tokens of the messages: one for four ASCII
// characters or one other rune, and a fixed number for an image. It overestimates prose.
// If it underestimates, the provider returns a context_length error.
func EstimateTokens(messages []chat.Message) int {
	n := 0
	for _, m := range messages {
		n += messageTokens
		for _, p := range m.Parts {
			n += partTokens + textTokens(p.Text) + rawTokens(p.Input) + outputTokens(p) + textTokens(p.ToolName)
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

// outputTokens estimates the output of a tool result. A picture costs as much as one in a
// message, however many bytes it has.
func outputTokens(p chat.Part) int {
	content, ok := p.Content()
	if !ok {
		return rawTokens(p.Output)
	}
	n := 0
	for _, one := range content {
		n += partTokens + textTokens(one.Text)
		if _, _, picture := one.ResultData(); picture {
			n += mediaTokens
		}
	}
	return n
}

// overheadTokens estimates the part of a prompt that is not the conversation.
func overheadTokens(system string, tools []llm.ToolSpec) int {
	n := textTokens(system)
	for _, t := range tools {
		n += messageTokens + textTokens(t.Name) + textTokens(t.Description) + rawTokens(t.Schema)
	}
	return n
}

func rawTokens(raw []byte) int { return countTokens(len(raw), utf8.RuneCount(raw)) }

func textTokens(s string) int { return countTokens(len(s), utf8.RuneCountInString(s)) }

// countTokens treats runes as ASCII unless they are longer than a byte: of r runes in b
// bytes, at most b-r are not ASCII.
func countTokens(bytes, runes int) int {
	other := min(runes, bytes-runes)
	return (runes-other+3)/4 + other
}
