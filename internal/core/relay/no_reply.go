package relay

import "strings"

const (
	// noReply is what a model says that wants to say nothing.
	noReply = "NO_REPLY"
	// stepEnd stands between what was said in one step and in the next.
	stepEnd = "\n\n"
)

// spoken is a text without the steps in which the model wanted to say nothing:
// what people say to each other while it answers is added to the request, and is
// often not for it. While the text goes on, what may still become such a step is
// left out, too. In code it is a word like others.
func spoken(text string, goesOn bool) string {
	begun := strings.TrimSpace(text[strings.LastIndex(text, stepEnd)+1:])
	mayBecome := goesOn && begun != "" && strings.HasPrefix(noReply, begun)
	if !mayBecome && !strings.Contains(text, noReply) {
		return text // as nearly all are
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
