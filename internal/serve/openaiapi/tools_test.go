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
		got, err := divide(Client{Name: "ide", IgnoreTools: c.ignore}, o, input{{Role: "user", Content: content{{Text: "hello"}}}}, "Be brief.", "messages")
		if field := fault.ToWire(err).Field; (err != nil) != (c.field != "") || err != nil && field != c.field {
			t.Errorf("%s: %v", c.name, err)
		}
		if note := strings.HasPrefix(got.instructions, "Be brief.\n\n"+toolsNote); note != c.note {
			t.Errorf("%s: the instructions are %q", c.name, got.instructions)
		}
	}
}
