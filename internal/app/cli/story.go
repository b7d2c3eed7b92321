package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
)

// told is what the entries of a story hold, as far as people are told.
type told struct {
	MessageID string        `json:"messageId"`
	Queue     string        `json:"queue"`
	Message   *chat.Message `json:"message"`
	Usage     chat.Usage    `json:"usage"`
	Stop      string        `json:"stop"`
	ModelMS   int64         `json:"modelMs"`
	Error     string        `json:"error"`
	DelayMS   int64         `json:"delayMs"`
	Name      string        `json:"name"`
	Display   string        `json:"display"`
	Result    *chat.Part    `json:"result"`
	Recovery  int           `json:"recovery"`
	Question  string        `json:"question"`
	Answer    string        `json:"answer"`
	State     string        `json:"state"`
	Detail    string        `json:"detail"`
	// Description is that of a task.
	Description string `json:"description"`
	Callable    string `json:"callable"`
	TaskID      string `json:"taskId"`
	Outcome     string `json:"outcome"`
}

// tell puts an entry of a request's story into words. What it does not know it
// shows as it is.
func tell(e session.StoryEntry) string {
	var t told
	if json.Unmarshal(e.Data, &t) != nil {
		return string(e.Data)
	}
	switch e.Kind {
	case "queued", "started", "compacted":
		return ""
	case "input":
		return fmt.Sprintf("message %s came in as %s", t.MessageID, t.Queue)
	case "model":
		return tellModel(t)
	case "model_failed":
		return fmt.Sprintf("%s Repeated after %.1f s.", t.Error, float64(t.DelayMS)/1000)
	case "tool_start":
		return orName(t)
	case "tool_end":
		if t.Result == nil {
			return orName(t)
		}
		text, failed := t.Result.OutputText()
		outcome := "answered: "
		if failed {
			outcome = "failed: "
		}
		return t.Name + " " + outcome + text
	case "task":
		return fmt.Sprintf("started background task %s: %s", t.TaskID, t.Description)
	case "call":
		return strings.TrimSpace(t.Callable + " " + t.Outcome + " " + t.Detail)
	case "recovered":
		return fmt.Sprintf("taken up again after a restart (%d)", t.Recovery)
	case "paused":
		return t.Question
	case "resumed":
		return "answered: " + t.Answer
	case "end":
		return strings.TrimSpace(t.State + " " + t.Detail)
	}
	return string(e.Data)
}

func orName(t told) string {
	if t.Display != "" {
		return t.Display
	}
	return t.Name
}

func tellModel(t told) string {
	if t.Message == nil {
		return ""
	}
	var calls []string
	for _, c := range t.Message.ToolCalls() {
		calls = append(calls, c.ToolName)
	}
	said := fmt.Sprintf("%.1f s, %d tokens read, %d written", float64(t.ModelMS)/1000, t.Usage.InputTokens, t.Usage.OutputTokens)
	if len(calls) > 0 {
		said += ", calls " + strings.Join(calls, ", ")
	}
	if text := strings.TrimSpace(t.Message.Text()); text != "" {
		said += ": " + text
	}
	return said
}
