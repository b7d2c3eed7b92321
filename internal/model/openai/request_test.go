package openai

import (
	"encoding/json"
	"testing"

	"lilac/internal/model/llm"
)

// The JSON of the tools is kept between calls, but only for the same tools.
func TestEachCallHasItsOwnTools(t *testing.T) {
	m := New(llm.Options{BaseURL: "http://127.0.0.1/v1", Model: "m"})
	read, write := []llm.ToolSpec{{Name: "read"}}, []llm.ToolSpec{{Name: "write"}}
	for _, tools := range [][]llm.ToolSpec{read, read, write, append(write, read...), nil, read} {
		call, _, err := m.Encode(llm.Request{Tools: tools}, llm.Facts{}, llm.Change{})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Tools []struct {
				Function struct{ Name string }
			}
		}
		if err := json.Unmarshal(call.Body, &got); err != nil {
			t.Fatalf("the request is not JSON: %v\n%s", err, call.Body)
		}
		if len(got.Tools) != len(tools) {
			t.Fatalf("the request has %d tools, want %d", len(got.Tools), len(tools))
		}
		for i, tool := range tools {
			if name := got.Tools[i].Function.Name; name != tool.Name {
				t.Errorf("tool %d is %q, want %q", i, name, tool.Name)
			}
		}
	}
}
