package transcript

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// Payload holds the fields of the events of a conversation that people are shown, whatever
// the type of the event (docs/events.md).
type Payload struct {
	RequestID  string           `json:"requestId"`
	MessageID  string           `json:"messageId"`
	Content    string           `json:"content"`
	Offset     int              `json:"offset"`
	ToolCallID string           `json:"toolCallId"`
	Name       string           `json:"name"`
	Display    string           `json:"display"`
	Args       json.RawMessage  `json:"args"`
	Status     event.ToolStatus `json:"status"`
	OK         *bool            `json:"ok"`
	Output     string           `json:"output"`
	Error      json.RawMessage  `json:"error"`
	Cancelled  bool             `json:"cancelled"`
	Queue      event.Queue      `json:"queue"`
	Message    string           `json:"message"`
	Question   string           `json:"question"`
	Kind       string           `json:"kind"`
	Pause      int              `json:"pause"`
	Choices    []string         `json:"choices"`
	Call       *struct {
		Tool  string `json:"tool"`
		Input string `json:"input"`
	} `json:"call"`
	Answer      string          `json:"answer"`
	Filename    string          `json:"filename"`
	Bytes       int64           `json:"bytes"`
	Path        string          `json:"path"`
	URL         string          `json:"url"`
	Notes       []string        `json:"notes"`
	Usage       *chat.Usage     `json:"usage"`
	Title       string          `json:"title"`
	Attachments json.RawMessage `json:"attachments"`
	Description string          `json:"description"`
}
