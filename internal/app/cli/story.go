package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
)

// entryData holds the fields of journal entries that are printed.
type entryData struct {
	MessageID   string        `json:"messageId"`
	Queue       string        `json:"queue"`
	Message     *chat.Message `json:"message"`
	Usage       chat.Usage    `json:"usage"`
	Stop        string        `json:"stop"`
	ModelMS     int64         `json:"modelMs"`
	Error       string        `json:"error"`
	DelayMS     int64         `json:"delayMs"`
	Name        string        `json:"name"`
	Display     string        `json:"display"`
	Result      *chat.Part    `json:"result"`
	Recovery    int           `json:"recovery"`
	Question    string        `json:"question"`
	Answer      string        `json:"answer"`
	Reply       string        `json:"reply"`
	Tool        string        `json:"tool"`
	State       string        `json:"state"`
	Detail      string        `json:"detail"`
	Description string        `json:"description"`
	Callable    string        `json:"callable"`
	TaskID      string        `json:"taskId"`
	Outcome     string        `json:"outcome"`
	From        string        `json:"from"`
	To          string        `json:"to"`
	Reason      string        `json:"reason"`
	ChangeID    string        `json:"changeId"`
	Place       string        `json:"place"`
	Before      *string       `json:"before"`
	After       *string       `json:"after"`
}

// describe describes a journal entry of a request. It prints unknown entries as JSON.
func describe(e session.StoryEntry) string {
	var t entryData
	if json.Unmarshal(e.Data, &t) != nil {
		return string(e.Data)
	}
	switch e.Kind {
	case "queued", "started", "compacted":
		return ""
	case "input":
		return fmt.Sprintf("message %s received as %s", t.MessageID, t.Queue)
	case "model":
		return describeModel(t)
	case "model_failed":
		return fmt.Sprintf("%s Retried after %.1f s.", t.Error, float64(t.DelayMS)/1000)
	case "model_switched":
		return fmt.Sprintf("%s continued for %s: %s", t.To, t.From, t.Reason)
	case "tool_start":
		return displayName(t)
	case "tool_end":
		if t.Result == nil {
			return displayName(t)
		}
		text, failed := t.Result.OutputText()
		outcome := "returned: "
		if failed {
			outcome = "failed: "
		}
		return t.Name + " " + outcome + text
	case "task":
		return fmt.Sprintf("started background task %s: %s", t.TaskID, t.Description)
	case "call":
		return strings.TrimSpace(t.Callable + " " + t.Outcome + " " + t.Detail)
	case "memory":
		return describeMemory(t)
	case "recovered":
		return fmt.Sprintf("resumed after a restart (%d)", t.Recovery)
	case "paused":
		return t.Question
	case "resumed":
		return strings.TrimSpace("answered: " + t.Answer + " " + t.Reply)
	case "approved":
		return "used the approval of " + t.Tool
	case "end":
		return strings.TrimSpace(t.State + " " + t.Detail)
	}
	return string(e.Data)
}

func displayName(t entryData) string {
	if t.Display != "" {
		return t.Display
	}
	return t.Name
}

func describeModel(t entryData) string {
	if t.Message == nil {
		return ""
	}
	var calls []string
	for _, c := range t.Message.ToolCalls() {
		calls = append(calls, c.ToolName)
	}
	line := fmt.Sprintf("%.1f s, %d tokens in (%.0f%% cached), %d out", float64(t.ModelMS)/1000, t.Usage.InputTokens, 100*t.Usage.CachedShare(), t.Usage.OutputTokens)
	if len(calls) > 0 {
		line += ", calls " + strings.Join(calls, ", ")
	}
	if text := strings.TrimSpace(t.Message.Text()); text != "" {
		line += ": " + text
	}
	return line
}

// describeMemory describes a change of the memory.
func describeMemory(t entryData) string {
	what := "changed"
	switch {
	case t.Before == nil:
		what = "remembered"
	case t.After == nil:
		what = "forgot"
	}
	return fmt.Sprintf("%s %s/%s (to undo it: lilac memory undo %s)", what, t.Place, t.Name, t.ChangeID)
}
