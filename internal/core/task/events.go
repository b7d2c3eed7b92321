package task

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"lilac/internal/foundation/event"
)

// Payload is the payload of the events background_task.*.
type Payload struct {
	TaskID      string `json:"taskId"`
	Kind        Kind   `json:"kind"`
	Description string `json:"description"`
	// RequestID is the request that started it.
	RequestID string `json:"requestId"`
	// Result is set when the task has ended.
	Result *Result `json:"result,omitempty"`
	// Error is the reason why it did not complete.
	Error string `json:"error,omitempty"`
	// StoppedBy is agent or person.
	StoppedBy Actor `json:"stoppedBy,omitempty"`
	// RunningMS is the running time, in milliseconds.
	RunningMS int64 `json:"runningMs"`
	// Line, in a progress event, is the last line of a command's output, or the
	// activity of a sub-agent.
	Line string `json:"line,omitempty"`
	// Steps, in a progress event, counts the steps of a sub-agent.
	Steps int `json:"steps,omitempty"`
	// OutputBytes is the size of a command's output.
	OutputBytes int64 `json:"outputBytes,omitempty"`
}

// Result is the result of a task.
type Result struct {
	ExitCode *int `json:"exitCode,omitempty"`
	// Output is the end of a command's output. Cut reports that there was more, which
	// the tool task reads.
	Output string `json:"output,omitempty"`
	Cut    bool   `json:"cut,omitempty"`
	// Answer is the last answer of a sub-agent.
	Answer string `json:"answer,omitempty"`
}

var endTypes = map[State]event.Type{
	Completed: event.BackgroundTaskCompleted, Failed: event.BackgroundTaskFailed,
	Timeout: event.BackgroundTaskTimeout, Stopped: event.BackgroundTaskStopped,
}

// endEvent returns the event of the end of a task.
func endEvent(t Task) (event.EnvEvent, error) {
	p := t.payload(t.EndedAt)
	p.Error, p.StoppedBy, p.OutputBytes = t.Reason, t.StoppedBy, t.Printed
	p.Result = &Result{ExitCode: t.ExitCode}
	if t.Kind == Agent {
		p.Result.Answer = t.Result
	} else {
		p.Result.Output, p.Result.Cut = t.Result, t.Printed > int64(len(t.Result))
	}
	return t.event(endTypes[t.State], string(t.State), p, t.EndedAt)
}

func startEvent(t Task) (event.EnvEvent, error) {
	return t.event(event.BackgroundTaskStarted, "started", t.payload(t.CreatedAt), t.CreatedAt)
}

func progressEvent(t Task, w Progress, now time.Time) (event.EnvEvent, error) {
	p := t.payload(now.UnixMilli())
	p.Line, p.Steps = w.LastLine, w.Steps
	if t.Kind == Command {
		p.OutputBytes = w.Amount
	}
	return t.event(event.BackgroundTaskProgress, fmt.Sprintf("progress-%d", w.Amount), p, now.UnixMilli())
}

func (t Task) payload(at int64) Payload {
	return Payload{TaskID: t.ID, Kind: t.Kind, Description: t.Description, RequestID: t.RequestID, RunningMS: max(0, at-t.CreatedAt)}
}

// event returns an event of a task. name identifies it within the task.
func (t Task) event(typ event.Type, name string, p Payload, at int64) (event.EnvEvent, error) {
	payload, err := json.Marshal(p)
	if err != nil {
		return event.EnvEvent{}, fmt.Errorf("encode payload of task: %w", err)
	}
	e := event.EnvEvent{
		ID: "task-" + t.ID + "-" + name, Type: typ, Timestamp: at, Payload: payload,
		Metadata: event.EnvMetadata{
			TriggerSessionID: t.SessionID, TriggerAgentID: t.ID, TriggerAgentName: t.Description, Source: "tool",
			// The rules end long chains of events by their depth. This depth was
			// allowed at the start of the task.
			Extra: map[string]json.RawMessage{"depth": json.RawMessage(strconv.Itoa(t.Depth))},
		},
	}
	if len(t.Grant) > 0 {
		if e.Metadata.Extra[event.MetadataGrant], err = json.Marshal(t.Grant); err != nil {
			return e, fmt.Errorf("encode grant of task: %w", err)
		}
	}
	return e, nil
}
