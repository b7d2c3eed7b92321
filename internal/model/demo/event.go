package demo

import (
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/foundation/text"
)

// eventTool is the tool that tells of events of the environment.
const eventTool = "get_event_info"

// ended is what an event tells of a background task that has ended.
type ended struct {
	Description string `json:"description"`
	Error       string `json:"error"`
	Result      struct {
		Output string `json:"output"`
		Answer string `json:"answer"`
	} `json:"result"`
}

// ofEvent says what the model was told of an event. rest is what people have
// said besides: the first word behind the event is that of a rule.
func ofEvent(s situation) (content string, rest []string, ok bool) {
	if len(s.results) != 1 || s.results[0].ToolName != eventTool || len(s.said) == 0 {
		return "", nil, false
	}
	told, _ := s.results[0].OutputText()
	var e struct {
		Type    string          `json:"event_type"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal([]byte(told), &e) != nil {
		return "", nil, false
	}
	if how, is := strings.CutPrefix(e.Type, "background_task."); is {
		return ofTask(how, e.Payload), s.said[1:], true
	}
	_, task, _ := strings.Cut(s.said[0], "\n\n")
	content = fmt.Sprintf("I was told of the event `%s`:\n\n%s\n\nThe rule asks: “%s” A language model would do that now.",
		e.Type, fenced(text.TruncateRunes(string(e.Payload), maxOutput)), quote(task))
	return content, s.said[1:], true
}

func ofTask(how string, payload json.RawMessage) string {
	var e ended
	_ = json.Unmarshal(payload, &e) // one of another shape says less
	content := fmt.Sprintf("The background task “%s” has ended: %s.", quote(e.Description), how)
	if e.Error != "" {
		content += " " + e.Error
	}
	if out := strings.TrimRight(e.Result.Output+e.Result.Answer, "\n "); out != "" {
		content += "\n\n" + fenced(text.TruncateRunes(out, maxOutput))
	}
	return content
}
