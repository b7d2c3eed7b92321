package event

import "encoding/json"

// WorkflowCreate starts a durable wait.
type WorkflowCreate struct {
	WorkflowID string          `json:"workflowId"`
	Definition json.RawMessage `json:"definition"`
}

// WorkflowTaskCreate adds a task to a workflow.
type WorkflowTaskCreate struct {
	WorkflowID  string          `json:"workflowId"`
	TaskID      string          `json:"taskId"`
	Kind        string          `json:"kind"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"input,omitempty"`
}

// WorkflowCancel ends a workflow without a result.
type WorkflowCancel struct {
	WorkflowID string `json:"workflowId"`
	Reason     string `json:"reason,omitempty"`
}

// WorkflowLifecycleChanged reports that a workflow changed its state.
type WorkflowLifecycleChanged struct {
	WorkflowID string `json:"workflowId"`
	State      string `json:"state"`
	Detail     string `json:"detail,omitempty"`
	TS         int64  `json:"ts"`
}

// WorkflowOutcome is the result of a workflow.
type WorkflowOutcome struct {
	WorkflowID string          `json:"workflowId"`
	Result     json.RawMessage `json:"result"`
	TS         int64           `json:"ts"`
}

// WorkflowTaskLifecycleChanged reports that a task changed its state.
type WorkflowTaskLifecycleChanged struct {
	WorkflowID string `json:"workflowId"`
	TaskID     string `json:"taskId"`
	State      string `json:"state"`
	Detail     string `json:"detail,omitempty"`
	TS         int64  `json:"ts"`
}

// WorkflowTaskOutcome is the result of a task.
type WorkflowTaskOutcome struct {
	WorkflowID string          `json:"workflowId"`
	TaskID     string          `json:"taskId"`
	Result     json.RawMessage `json:"result"`
	TS         int64           `json:"ts"`
}

// EventType implements [Payload].
func (WorkflowCreate) EventType() Type { return CmdWorkflowCreate }

// EventType implements [Payload].
func (WorkflowTaskCreate) EventType() Type { return CmdWorkflowTaskCreate }

// EventType implements [Payload].
func (WorkflowCancel) EventType() Type { return CmdWorkflowCancel }

// EventType implements [Payload].
func (WorkflowLifecycleChanged) EventType() Type { return WorkflowLifecycle }

// EventType implements [Payload].
func (WorkflowOutcome) EventType() Type { return WorkflowResolved }

// EventType implements [Payload].
func (WorkflowTaskLifecycleChanged) EventType() Type { return WorkflowTaskLifecycle }

// EventType implements [Payload].
func (WorkflowTaskOutcome) EventType() Type { return WorkflowTaskResolved }

func (w WorkflowCreate) workflowID() string               { return w.WorkflowID }
func (w WorkflowTaskCreate) workflowID() string           { return w.WorkflowID }
func (w WorkflowCancel) workflowID() string               { return w.WorkflowID }
func (w WorkflowLifecycleChanged) workflowID() string     { return w.WorkflowID }
func (w WorkflowOutcome) workflowID() string              { return w.WorkflowID }
func (w WorkflowTaskLifecycleChanged) workflowID() string { return w.WorkflowID }
func (w WorkflowTaskOutcome) workflowID() string          { return w.WorkflowID }
