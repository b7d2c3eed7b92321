package session

import (
	"regexp"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
)

// Answer is what a person says to a request that waits at a limit.
type Answer string

// The answers.
const (
	NoAnswer Answer = ""
	Continue Answer = "continue"
	Stop     Answer = "stop"
)

// maxAnswer bounds what is read as an answer, in bytes; what is longer says
// more than yes or no.
const maxAnswer = 500

var answers = map[string]Answer{
	"continue": Continue, "go on": Continue, "go ahead": Continue, "carry on": Continue, "keep going": Continue,
	"resume": Continue, "proceed": Continue, "yes": Continue, "y": Continue, "ok": Continue, "okay": Continue,
	"stop": Stop, "end": Stop, "cancel": Stop, "abort": Stop, "quit": Stop, "enough": Stop, "no": Stop, "n": Stop,
}

// attribution is the line by which composition says who wrote a message; in a
// person's own text it is made to look different. The line that says what it
// replies to may follow.
var attribution = regexp.MustCompile(`^\[[^\s\[\]=]+ user_id=([^\s\[\]=]+) user_name=[^\s\[\]=]+ message_id=[^\s\[\]=]+\]\n(?:\(in reply to .*\)\n)?`)

// AuthorOf returns who wrote the newest of the messages that says so, as the
// platform's user id, or "".
func AuthorOf(messages []chat.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role != chat.User {
			continue
		}
		if found := attribution.FindStringSubmatch(m.Text()); found != nil {
			return found[1]
		}
	}
	return ""
}

// AnswerOf reads messages as an answer: one of a person that says nothing but
// a word of the list, or "continue" with a few words on how.
func AnswerOf(messages []chat.Message) Answer {
	if len(messages) != 1 || messages[0].Role != chat.User {
		return NoAnswer
	}
	text := messages[0].Text()
	text = strings.ToLower(strings.TrimSpace(text[len(attribution.FindString(text)):]))
	if len(text) > maxAnswer {
		return NoAnswer
	}
	if a, ok := answers[strings.Join(strings.Fields(strings.Trim(text, ".!,/\"' ")), " ")]; ok {
		return a
	}
	if rest, ok := strings.CutPrefix(text, string(Continue)); ok && rest != "" && strings.ContainsAny(rest[:1], " ,.:;\n") {
		return Continue
	}
	return NoAnswer
}
