package agent

import (
	"slices"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// isMedia reports whether the model gets the part as an image or document, not as text.
func isMedia(p chat.Part) bool {
	if content, ok := p.Content(); ok {
		return slices.ContainsFunc(content, func(one chat.Part) bool { _, _, picture := one.ResultData(); return picture })
	}
	if p.Type != chat.TypeImage && p.Type != chat.TypeFile {
		return false
	}
	_, isText := llm.ParseMedia(p).Text()
	return !isText
}

// hasMedia reports whether the messages contain media, which a provider may refuse.
func hasMedia(messages []chat.Message) bool {
	return slices.ContainsFunc(messages, func(m chat.Message) bool { return slices.ContainsFunc(m.Parts, isMedia) })
}

// mediaScope says which media are replaced by their names.
type mediaScope int

const (
	noMedia mediaScope = iota
	// newMedia are those that no answered call has sent. Changing the others would change
	// what earlier answers were based on.
	newMedia
	allMedia
)

// from returns the index of the first message whose media are replaced.
func (s mediaScope) from(messages []chat.Message) int {
	if s == allMedia {
		return 0
	}
	for i, m := range slices.Backward(messages) {
		if m.Role == chat.Assistant {
			return i + 1
		}
	}
	return 0
}

// next returns the scope after the provider refused a prompt. It returns s itself if no more
// media can be replaced.
func (s mediaScope) next(messages []chat.Message) mediaScope {
	switch fresh := newMedia.from(messages); {
	case s == noMedia && hasMedia(messages[fresh:]):
		return newMedia
	case s != allMedia && hasMedia(messages[:fresh]):
		return allMedia
	}
	return s
}

// replaceMedia replaces the media parts of the messages from an index on with their names. It
// does not modify its argument.
func replaceMedia(messages []chat.Message, from int) []chat.Message {
	out := slices.Clone(messages)
	for i, m := range out {
		if i < from || !slices.ContainsFunc(m.Parts, isMedia) {
			continue
		}
		out[i].Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if !isMedia(p) {
				continue
			}
			if p.Type == chat.TypeToolResult {
				text, _ := p.OutputText()
				out[i].Parts[j] = chat.ToolResult(p.ToolCallID, p.ToolName, text, false)
			} else {
				out[i].Parts[j] = chat.TextPart(llm.ParseMedia(p).Placeholder())
			}
		}
	}
	return out
}
