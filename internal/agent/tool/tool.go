package tool

import (
	"context"
	"encoding/json"
)

// Tool is something the agent can do.
type Tool interface {
	Spec() Spec
	// Run does it. input was checked to be a JSON object, nothing more. What
	// goes wrong in a way the model should know is a Result with Failed, not an
	// error; an error is a defect or the end of ctx.
	Run(ctx context.Context, call Call) (Result, error)
}

// Spec describes a tool to the model and to the runner.
type Spec struct {
	Name        string
	Description string          // the text for the model
	Schema      json.RawMessage // JSON Schema of the input
	// Idempotent tools are simply run again after a crash; for others the
	// model is told that the outcome is unknown.
	Idempotent bool
	// ParallelSafe tools may run beside others of the same step.
	ParallelSafe bool
}

// Call is one use of a tool.
type Call struct {
	ID        string
	Input     json.RawMessage
	RequestID string
	SessionID string
	Client    string
	// Workspace is the directory the agent works in.
	Workspace string
	// Progress, when set, shows a line while the tool runs.
	Progress func(line string)
}

// Result is what the model is told.
type Result struct {
	// Text is bounded by the tool; the rest of a long output is in a file that
	// the text names.
	Text   string
	Failed bool
	// Display is one line for people; empty means the tool's name.
	Display string
}

// Displayer is a tool that can say in one line what a call will do.
type Displayer interface {
	Display(input json.RawMessage) string
}
