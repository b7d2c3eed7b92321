// Package toolwire defines the messages between the tool server and the command "tools",
// and the environment variables with which the command finds the server. Both sides
// import it, and nothing of each other, so that the command stays small. It has no state.
package toolwire

import (
	"encoding/json"

	"lilac/internal/foundation/fault"
)

// The environment variables that name the server, and the token that a command uses.
const (
	EnvSocket = "LILAC_TOOL_SOCKET" // path of a Unix socket
	EnvURL    = "LILAC_TOOL_URL"    // http://127.0.0.1:port
	EnvToken  = "LILAC_TOOL_TOKEN"
)

// HeaderPrefix is the prefix of the headers that carry the LILAC_… variables of a
// caller. They describe the context and grant nothing.
const HeaderPrefix = "x-lilac-"

// Contexts lists the headers that a server reads, without their prefix.
var Contexts = []string{"request-id", "session-id", "request-client", "cwd"}

// Summary describes a callable in a list.
type Summary struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	// Changes reports that a call changes something.
	Changes bool `json:"changes"`
	// Repeatable reports that a call whose outcome is unknown may be repeated.
	Repeatable bool `json:"repeatable"`
}

// Listing is the response to GET /list.
type Listing struct {
	Callables []Summary `json:"callables"`
}

// Help is the response to GET /help/{callable}.
type Help struct {
	Summary
	Description string   `json:"description,omitempty"`
	Examples    []string `json:"examples,omitempty"`
	// Input is the JSON Schema of the input.
	Input json.RawMessage `json:"input"`
}

// Call is the body of POST /call.
type Call struct {
	CallableID string          `json:"callableId"`
	Input      json.RawMessage `json:"input,omitempty"`
}

// The states of an [Answer].
const (
	OK    = "ok"
	Error = "error"
)

// Answer is the response to POST /call, and the form of an error on every route.
type Answer struct {
	Status string          `json:"status"`
	Value  json.RawMessage `json:"value,omitempty"`
	Error  *fault.Wire     `json:"error,omitempty"`
}
