package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/model/llm"
)

// maxFailedCalls bounds how often in a row a model may fail to write a valid tool call
// before the error ends the request.
const maxFailedCalls = 3

// failedName matches the name of the tool in text that a model wrote instead of a valid
// call: <function=NAME>…, "name": "NAME", or NAME{….
var failedName = lazyregexp.New(`<function[=:(]\s*"?([A-Za-z0-9_-]+)|"name"\s*:\s*"([A-Za-z0-9_.-]+)"|tool ([A-Za-z0-9_-]+) did not match|attempted to call tool '([^']+)'|^\s*([A-Za-z0-9_-]+)\s*[({]`)

// addFailedCall adds the tool call that the server (Groq's tool_use_failed) rejected to the
// answer. The agent reports its invalid input to the model, which can then correct it.
func (d *decoder) addFailedCall(written string) {
	name := ""
	if m := failedName().FindStringSubmatch(written); m != nil {
		name = strings.Join(m[1:], "")
	}
	if name == "" {
		name = unnamed
		for _, c := range slices.Sorted(maps.Keys(d.calls.known)) {
			if strings.Contains(written, c) {
				name = c
			}
		}
	}
	c := &call{index: -1, id: d.calls.uniqueID("", name), name: name, data: map[string]json.RawMessage{}}
	// The call is rejected even if its text is an object that matches the schema.
	c.arguments.WriteString("rejected: " + written)
	d.calls.all = append(d.calls.all, c)
	d.finish = "tool_calls"
}

// tooManyFailedCalls reports whether the last answers of the conversation were all
// rejected calls.
func tooManyFailedCalls(messages []chat.Message) bool {
	failed := 0
	for _, m := range slices.Backward(messages) {
		if m.Role != chat.Assistant {
			continue
		}
		calls := m.ToolCalls()
		if len(calls) == 0 || !isRejected(calls[len(calls)-1]) {
			break
		}
		failed++
	}
	return failed >= maxFailedCalls
}

func isRejected(p chat.Part) bool {
	var input string
	_ = json.Unmarshal(llm.ProviderData(p.ProviderOptions, "lilac")["invalidInput"], &input)
	return strings.HasPrefix(input, "rejected: ")
}
