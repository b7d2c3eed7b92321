package openaiapi

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
)

// Codex, opencode, Crush, and Continue's command line always send tools of their own.
func TestToolsOfAClientAreIgnoredOnlyIfNobodyWaitsForThem(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, c := range []struct {
		name, body string
		ignore     bool   // the setting
		field      string // of the error
		note       bool   // the model learns that tools are missing
	}{
		{name: "no tools", body: ``},
		{name: "an empty list", body: `"tools":[]`},
		{name: "no tools, although a tool is required", body: `"tool_choice":"required"`},
		{name: "tools", body: tools, field: "tools"},
		{name: "functions", body: `"functions":[{"name":"f"}]`, field: "tools"},
		{name: "tools that the client does not want used", body: tools + `,"tool_choice":"none"`},
		{name: "tools, ignored", body: tools, ignore: true, note: true},
		{name: "functions, ignored", body: `"functions":[{"name":"f"}]`, ignore: true, note: true},
		{name: "an automatic choice, ignored", body: tools + `,"tool_choice":"auto"`, ignore: true, note: true},
		{name: "no choice, ignored", body: tools + `,"tool_choice":null`, ignore: true, note: true},
		{name: "a required tool", body: tools + `,"tool_choice":"required"`, ignore: true, field: "tool_choice"},
		{name: "a tool by name", body: tools + `,"tool_choice":{"type":"function","function":{"name":"f"}}`, ignore: true, field: "tool_choice"},
	} {
		var o offer
		if err := json.Unmarshal([]byte("{"+c.body+"}"), &o); err != nil {
			t.Fatal(err)
		}
		var got conversation
		err := got.divide(Client{Name: "ide", IgnoreTools: c.ignore}, &question{offer: o, messages: input{{Role: "user", Content: content{{Text: "hello"}}}}, instructions: "Be brief.", field: "messages"})
		if field := fault.ToWire(err).Field; (err != nil) != (c.field != "") || err != nil && field != c.field {
			t.Errorf("%s: %v", c.name, err)
		}
		if note := strings.HasPrefix(got.instructions, "Be brief.\n\n"+toolsNote); note != c.note {
			t.Errorf("%s: the instructions are %q", c.name, got.instructions)
		}
	}
}

// A person can choose Lilac in the middle of a conversation in which another model used tools of the
// client, as opencode sends it with chat completions, and Codex with responses.
func TestEarlierToolCallsOfAnotherModelAreRead(t *testing.T) {
	for name, messages := range map[string]string{
		"chat completions": `[{"role":"user","content":"find"},{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"glob","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"a.json"},{"role":"assistant","content":"There is one."},{"role":"user","content":"thanks"}]`,
		"responses": `[{"role":"user","content":"find"},{"type":"function_call","call_id":"c","name":"glob","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"a.json"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"There is one."}]},{"role":"user","content":"thanks"}]`,
	} {
		var in input
		if err := json.Unmarshal([]byte(messages), &in); err != nil {
			t.Fatal(err)
		}
		var got conversation
		if err := got.divide(Client{}, &question{messages: in, field: "messages"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if opening := got.opening(); !strings.Contains(opening, "user: find\n\ntool: a.json\n\nassistant: There is one.\n\n---") || got.prompt != "thanks" {
			t.Errorf("%s: %q after %q", name, got.prompt, opening)
		}
		// A result at the end is for a call of Lilac, which makes none.
		if err := new(conversation).divide(Client{}, &question{messages: in[:3], field: "messages"}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: a result at the end: %v", name, err)
		}
	}
}
