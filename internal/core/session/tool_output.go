package session

import (
	"encoding/json"
	"fmt"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// displayArgs are the arguments of a call as the output shows them.
func displayArgs(call chat.Part) json.RawMessage {
	if len(call.Input) > maxArgs {
		return nil
	}
	return call.Input
}

// toolEndEvent is the end of a call as the output shows it.
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

// tellRest tells on the output of the calls of a step whose end was not told: a
// stop kept them from beginning, or nobody knows how they ended. It is part of
// the transaction that puts the step into the history, so it is told once. The
// environment is not told: what never began has not failed.
func (c *change) reportRemainingCalls(h event.Headers, step int, messages []chat.Message, told func(toolCallID string) bool) error {
	calls := map[string]chat.Part{}
	for i, m := range messages {
		for _, call := range m.ToolCalls() {
			calls[call.ToolCallID] = call
		}
		for j, result := range m.ToolResults() {
			call, known := calls[result.ToolCallID]
			if !known || told(result.ToolCallID) {
				continue
			}
			delete(calls, result.ToolCallID)
			shown := toolEndEvent(call, result, agent.Display(c.svc.opt.Tools, call))
			shown.Args = displayArgs(call)
			if err := c.publish(fmt.Sprintf("%s/%d", stepID(h.RequestID(), step, i), j), h, shown); err != nil {
				return err
			}
		}
	}
	return nil
}
