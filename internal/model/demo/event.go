package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/foundation/text"
)

// eventTool is the tool that reports environment events.
const eventTool = "get_event_info"

// taskEnd is the payload of an event about a finished background task.
type taskEnd struct {
	Description string `json:"description"`
	Error       string `json:"error"`
	Result      struct {
		Output string `json:"output"`
		Answer string `json:"answer"`
	} `json:"result"`
}

// describeEvent answers an environment event. The first message after an event is the
// instruction of the rule that matched; rest holds the messages after it.
func describeEvent(s turn) (content string, rest []string, ok bool) {
	if len(s.results) != 1 || s.results[0].ToolName != eventTool || len(s.messages) == 0 {
		return "", nil, false
	}
	payload, _ := s.results[0].OutputText()
	var e struct {
		Type    string          `json:"event_type"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal([]byte(payload), &e) != nil {
		return "", nil, false
	}
	if how, is := strings.CutPrefix(e.Type, "background_task."); is {
		return describeTask(how, e.Payload), s.messages[1:], true
	}
	_, task, _ := strings.Cut(s.messages[0], "\n\n")
	content = fmt.Sprintf("I received the event `%s`:\n\n%s\n\nThe rule asks: “%s” A language model would do that now.",
		e.Type, fenced(text.TruncateRunes(string(e.Payload), maxOutput)), quote(task))
	return content, s.messages[1:], true
}

func describeTask(how string, payload json.RawMessage) string {
	var e taskEnd
	_ = json.Unmarshal(payload, &e) // fields of another shape stay empty
	content := fmt.Sprintf("The background task “%s” has ended: %s.", quote(e.Description), how)
	if e.Error != "" {
		content += " " + e.Error
	}
	if out := strings.TrimRight(e.Result.Output+e.Result.Answer, "\n "); out != "" {
		content += "\n\n" + fenced(text.TruncateRunes(out, maxOutput))
	}
	return content
}
