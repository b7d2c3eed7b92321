// Package toolwire is what the tool server and the command "tools" say to each
// other over HTTP, and where they find each other. Both sides import it and
// nothing of each other, so that the command stays small.
package toolwire

import (
	"encoding/json"

	"lilac/internal/foundation/fault"
)

// The variables in which a command finds the server, and the token that says
// what it may do there.
const (
	EnvSocket = "LILAC_TOOL_SOCKET" // path of a Unix socket
	EnvURL    = "LILAC_TOOL_URL"    // http://127.0.0.1:port
	EnvToken  = "LILAC_TOOL_TOKEN"
)

// HeaderPrefix begins the headers that the LILAC_… variables of a caller travel
// in. They name the context and allow nothing.
const HeaderPrefix = "x-lilac-"

// Contexts are the headers, without their prefix, that a server reads.
var Contexts = []string{"request-id", "session-id", "request-client", "cwd"}

// Summary is a callable in a list.
type Summary struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	// Changes says that a call changes something.
	Changes bool `json:"changes"`
	// Repeatable says that a call whose outcome is unknown may simply be made again.
	Repeatable bool `json:"repeatable"`
}

// Listing answers GET /list.
type Listing struct {
	Callables []Summary `json:"callables"`
}

// Help answers GET /help/{callable}.
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

// Answer answers POST /call; every route answers an error in this form.
type Answer struct {
	Status string          `json:"status"`
	Value  json.RawMessage `json:"value,omitempty"`
	Error  *fault.Wire     `json:"error,omitempty"`
}
