package openaiapi

import (
	"encoding/json"

	"lilac/internal/foundation/fault"
)

// offer has the tools of a client in a call. Functions is their older form.
type offer struct {
	Tools      []json.RawMessage `json:"tools"`
	Functions  []json.RawMessage `json:"functions"`
	ToolChoice json.RawMessage   `json:"tool_choice"`
}

// toolsNote tells the model that the tools are missing to which the client's instructions may refer.
// Otherwise, it could take its own workspace for the client's directory.
const toolsNote = "The program that calls you has tools of its own, and the instructions above may name them. You do not have them: use only the tools that you are offered. " +
	"They work in your own workspace, not in the directory of the program. If a task needs the tools of the program, say so."

// ignore reports whether the call is answered without the client's tools. It refuses a call whose
// client may wait for a call of one: a client that says "none" does not, and of others the operator
// must know it.
func (o offer) ignore(c Client) (bool, error) {
	choice := string(o.ToolChoice)
	automatic := choice == "" || choice == "null" || choice == `"auto"`
	switch {
	case len(o.Tools)+len(o.Functions) == 0 || choice == `"none"`:
		return false, nil
	case c.IgnoreTools && !automatic:
		return false, fault.InvalidField("tool_choice", "The call requires a tool of the program, but the agent uses only Lilac's. Leave tool_choice out, or set it to auto or none.")
	case !c.IgnoreTools:
		return false, fault.InvalidField("tools", "The program sent tools of its own, but the agent uses only Lilac's. Turn them off in the program, or offer them to Lilac over MCP. "+
			"For a program that always sends some, the operator can set v1.tokens.%s.ignoreTools.", c.Name)
	}
	return true, nil
}
