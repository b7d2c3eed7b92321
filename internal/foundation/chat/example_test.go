package chat_test

import (
	"encoding/json"
	"fmt"

	"lilac/internal/foundation/chat"
)

// A message keeps fields that Lilac does not know, because providers want them
// back unchanged.
func Example() {
	stored := `{"role":"assistant","content":[{"type":"text","text":"Hello."},{"type":"new-kind","x":1}],"vendor":true}`
	var m chat.Message
	if err := json.Unmarshal([]byte(stored), &m); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Role, m.Text())
	again, err := json.Marshal(m)
	fmt.Println(string(again), err)
	// Output:
	// assistant Hello.
	// {"role":"assistant","content":[{"type":"text","text":"Hello."},{"type":"new-kind","x":1}],"vendor":true} <nil>
}

// Every tool call in an assistant message needs exactly one result in the tool
// message that follows.
func ExampleToolResult() {
	call := chat.ToolCall("call-1", "read", json.RawMessage(`{"path":"notes.txt"}`))
	result := chat.ToolResult(call.ToolCallID, call.ToolName, "The file does not exist.", true)
	text, failed := result.OutputText()
	fmt.Println(text, failed)
	// Output: The file does not exist. true
}
