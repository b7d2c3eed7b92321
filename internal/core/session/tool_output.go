package session

import (
	"encoding/json"
	"fmt"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// displayArgs returns the arguments of a call for the output topic; nil if they
// are too long.
func displayArgs(call chat.Part) json.RawMessage {
	if len(call.Input) > maxArgs {
		return nil
	}
	return call.Input
}

// toolEndEvent returns the output event for the end of a call.
func toolEndEvent(call, result chat.Part, display string) event.ToolCallOutput {
	text, failed := result.OutputText()
	ok := !failed
	shown := event.ToolCallOutput{
		ToolCallID: call.ToolCallID, Status: event.ToolEnd, Display: display, Name: call.ToolName,
		Output: preview(text), OK: &ok, Truncated: len(text) > maxPreview,
	}
	if failed {
		shown.Error = preview(text)
	}
	return shown
}

// reportRemainingCalls publishes the ends of those calls of a step that the output
// has not reported: a stop kept them from starting, or their outcome is unknown. It
// is part of the transaction that appends the step to the history, so it happens
// once. It publishes no environment event, because a call that never started has
// not failed.
func (c *change) reportRemainingCalls(h event.Headers, step int, messages []chat.Message, reported func(toolCallID string) bool) error {
	calls := map[string]chat.Part{}
	for i, m := range messages {
		for _, call := range m.ToolCalls() {
			calls[call.ToolCallID] = call
		}
		for j, result := range m.ToolResults() {
			call, known := calls[result.ToolCallID]
			if !known || reported(result.ToolCallID) {
				continue
			}
			delete(calls, result.ToolCallID)
			shown := toolEndEvent(call, result, agent.Display(c.svc.opt.allTools(), call))
			shown.Args = displayArgs(call)
			if err := c.publish(fmt.Sprintf("%s/%d", stepID(h.RequestID(), step, i), j), h, shown); err != nil {
				return err
			}
		}
	}
	return nil
}
