package agent

import (
	"slices"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// isMedia reports whether the model gets the part as an image or document, not as text.
func isMedia(p chat.Part) bool {
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

// replaceMedia replaces media parts with their names. It does not modify its argument.
func replaceMedia(messages []chat.Message) []chat.Message {
	out := slices.Clone(messages)
	for i, m := range out {
		if !slices.ContainsFunc(m.Parts, isMedia) {
			continue
		}
		out[i].Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if isMedia(p) {
				out[i].Parts[j] = chat.TextPart(llm.ParseMedia(p).Placeholder())
			}
		}
	}
	return out
}
