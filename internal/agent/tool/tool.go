package tool

import (
	"context"
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
)

// Tool is an action that the model can call. [New] makes one of a function.
type Tool interface {
	Spec() Spec
	// Run executes a call. Failures that the model should know of are a Result
	// with Failed set; an error is a defect or the end of ctx. The caller has
	// checked only that the input is a JSON object.
	Run(ctx context.Context, call Call) (Result, error)
}

// Spec describes a tool to the model and to the runner.
type Spec struct {
	Name        string
	Description string          // for the model
	Schema      json.RawMessage // JSON Schema of the input
	// Idempotent tools are run again after a crash. For others, the model is
	// told that the outcome is unknown.
	Idempotent bool
	// ParallelSafe tools may run at the same time as others of the same step.
	ParallelSafe bool
}

// Call is one call of a tool.
type Call struct {
	ID        string
	Input     json.RawMessage
	RequestID string
	SessionID string
	Client    string
	// Grant lists the tools that the call, and everything that it starts, may use.
	Grant grant.Grant
	// Workspace is the directory that the agent works in, with all links resolved; "" means the
	// configured one.
	Workspace string
	// Progress, if set, shows a line to people while the tool runs.
	Progress func(line string)
}

// Result is the outcome of a call.
type Result struct {
	// Text is for the model. The tool bounds it; a longer output is in a file
	// that the text names.
	Text   string
	Failed bool
	// Pictures are shown to the model with the text, if it accepts pictures; see
	// [chat.ResultImage]. Their data are references of blobs.
	Pictures []chat.Part
	// Display is one line for people; if it is empty, they see the tool's name.
	Display string
}

// Displayer is implemented by tools that can say in one line what a call does.
type Displayer interface {
	Display(input json.RawMessage) string
}
