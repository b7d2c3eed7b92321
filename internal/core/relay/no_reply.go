package relay

import "strings"

const (
	// noReply is the output of a model that does not want to reply.
	noReply = "NO_REPLY"
	// stepEnd separates the texts of two steps.
	stepEnd = "\n\n"
)

// withoutNoReply removes the steps in which the model did not want to reply:
// messages that people write to each other during an answer are added to the
// request, although they are often not for the agent. While the text continues, a
// paragraph that may still become such a step is removed, too. In code, the word
// has no meaning.
func withoutNoReply(text string, continues bool) string {
	begun := strings.TrimSpace(text[strings.LastIndex(text, stepEnd)+1:])
	mayBecome := continues && begun != "" && strings.HasPrefix(noReply, begun)
	if !mayBecome && !strings.Contains(text, noReply) {
		return text // the common case
	}
	paragraphs := strings.Split(text, stepEnd)
	var out []string
	var open fence
	for i, p := range paragraphs {
		last := i == len(paragraphs)-1
		if open.length == 0 && (strings.TrimSpace(p) == noReply || last && mayBecome) {
			continue
		}
		out = append(out, p)
		open = open.through(p + stepEnd)
	}
	if len(out) == len(paragraphs) {
		return text
	}
	return strings.Join(out, stepEnd)
}
