package session

import (
	"regexp"
	"slices"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

// Answer is the answer to a pause.
type Answer string

// The answers.
const (
	NoAnswer Answer = ""
	Continue Answer = "continue"
	Stop     Answer = "stop"
	// Once, Always and No are the answers to an approval: the call may run, and so may all
	// calls of the tool in the session, or it must not run.
	Once   Answer = "once"
	Always Answer = "always"
	No     Answer = "no"
	// Replied is the answer to a question of the agent; the reply is a text.
	Replied Answer = "reply"
	// TimedOut is the answer if nobody answered an approval or a question in time.
	TimedOut Answer = "timeout"
	// NewDay is the answer that the calendar gives to the question at a daily limit.
	NewDay Answer = "newDay"
)

// maxAnswer is the maximum length of an answer in bytes; a longer message says more
// than yes or no.
const maxAnswer = 500

var answers = map[string]Answer{
	"continue": Continue, "go on": Continue, "go ahead": Continue, "carry on": Continue, "keep going": Continue,
	"resume": Continue, "proceed": Continue, "yes": Continue, "y": Continue, "ok": Continue, "okay": Continue,
	"stop": Stop, "end": Stop, "cancel": Stop, "abort": Stop, "quit": Stop, "enough": Stop, "no": Stop, "n": Stop,
}

// attribution matches the line with which package compose names the author of a
// message, and an optional line with the message that it replies to. Compose
// escapes such lines in people's own text.
var attribution = regexp.MustCompile(`^\[[^\s\[\]=]+ user_id=([^\s\[\]=]+) user_name=[^\s\[\]=]+ message_id=[^\s\[\]=]+\]\n(?:\(in reply to .*\)\n)?`)

// AuthorOf returns the platform's user id of the author of the newest message with
// an attribution, or "".
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

// QuestionOf returns the name of a message's author, without which it is "", and the
// text that the person wrote.
func QuestionOf(m chat.Message) (name, question string) {
	question = m.Text()
	line := attribution.FindString(question)
	if _, rest, ok := strings.Cut(line, "user_name="); ok {
		name, _, _ = strings.Cut(rest, " ")
	}
	return name, question[len(line):]
}

// AnswerOf interprets messages as an answer: a single user message that is one of
// the answers, or "continue" with a few words of instruction.
func AnswerOf(messages []chat.Message) Answer {
	if len(messages) != 1 || messages[0].Role != chat.User {
		return NoAnswer
	}
	text := messages[0].Text()
	text = strings.ToLower(strings.TrimSpace(text[len(attribution.FindString(text)):]))
	if len(text) > maxAnswer {
		return NoAnswer
	}
	if a, ok := answers[plainWords(text)]; ok {
		return a
	}
	if rest, ok := strings.CutPrefix(text, string(Continue)); ok && rest != "" && strings.ContainsAny(rest[:1], " ,.:;\n") {
		return Continue
	}
	return NoAnswer
}

// Answers reports whether a message of the operator answers the pause of a session's active
// request.
func Answers(q db.Queryer, states StateTable, sessionID string, m chat.Message) (bool, error) {
	state, err := states.State(q, sessionID)
	return state.IsAnswer([]chat.Message{m}), err
}
