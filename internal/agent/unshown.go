package agent

import (
	"slices"

	"lilac/internal/foundation/chat"
	"lilac/internal/model/llm"
)

// isShown says that a part is shown to the model as it is, not as text: a picture,
// a document.
func isShown(p chat.Part) bool {
	if p.Type != chat.TypeImage && p.Type != chat.TypeFile {
		return false
	}
	_, isText := llm.ParseMedia(p).Text()
	return !isText
}

// showsMedia reports whether there is something in the messages that a provider
// may refuse to look at.
func showsMedia(messages []chat.Message) bool {
	return slices.ContainsFunc(messages, func(m chat.Message) bool { return slices.ContainsFunc(m.Parts, isShown) })
}

// withoutMedia returns the messages with what is shown in them only named. It does
// not modify its argument.
func withoutMedia(messages []chat.Message) []chat.Message {
	out := slices.Clone(messages)
	for i, m := range out {
		if !slices.ContainsFunc(m.Parts, isShown) {
			continue
		}
		out[i].Parts = slices.Clone(m.Parts)
		for j, p := range m.Parts {
			if isShown(p) {
				out[i].Parts[j] = chat.TextPart(llm.ParseMedia(p).Placeholder())
			}
		}
	}
	return out
}
