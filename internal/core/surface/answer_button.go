package surface

import (
	"fmt"
	"strconv"
	"strings"
)

// AnswerPrefix begins the id of a button that answers a question of a request.
const AnswerPrefix = "answer:"

// AnswerButton returns the id of the button for an answer, by its index, to the question of
// a pause, by its number. The request's id is last, so that a platform with short ids can
// leave it out and find the request by the message with the button.
func AnswerButton(pause, answer int, requestID string) string {
	return fmt.Sprintf("%s%d:%d:%s", AnswerPrefix, pause, answer, requestID)
}

// ParseAnswerButton returns what the id of a button means, and false if it answers nothing.
// The request id is "" if the platform left it out.
func ParseAnswerButton(id string) (pause, answer int, requestID string, ok bool) {
	rest, ok := strings.CutPrefix(id, AnswerPrefix)
	parts := strings.SplitN(rest, ":", 3)
	if !ok || len(parts) != 3 {
		return 0, 0, "", false
	}
	pause, err := strconv.Atoi(parts[0])
	answer, err2 := strconv.Atoi(parts[1])
	return pause, answer, parts[2], err == nil && err2 == nil
}
