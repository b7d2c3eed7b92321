package agent

import (
	"strings"

	"lilac/internal/foundation/chat"
)

// noResult replaces the lost result of a tool call.
const noResult = "No result of this call was recorded. Its outcome is unknown: check before repeating."

// Repair returns the messages in a form that every provider accepts: each tool call of an
// assistant message has exactly one result, in one tool message directly after it and
// in the order of the calls. It drops results without a call, replaces lost results by
// a failed one, moves results up past other messages, and leaves out assistant messages
// without text and calls. It does not change well-formed messages, is idempotent, and
// does not modify its argument.
func Repair(messages []chat.Message) []chat.Message {
	out := make([]chat.Message, 0, len(messages))
	for i, m := range messages {
		switch m.Role {
		case chat.Tool:
			continue // taken by the assistant message before it
		case chat.Assistant:
			m = dropRepeatedCalls(m)
			if isEmptyMessage(m) {
				continue
			}
			out = append(out, m)
			if results, ok := resultsFor(m, turnAfter(messages, i)); ok {
				out = append(out, results)
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

// turnAfter returns the messages between assistant message i and the next one. Later
// results cannot belong to i.
func turnAfter(messages []chat.Message, i int) []chat.Message {
	for j := i + 1; j < len(messages); j++ {
		if messages[j].Role == chat.Assistant {
			return messages[i+1 : j]
		}
	}
	return messages[i+1:]
}

// resultsFor builds the tool message of m; ok is false if m needs none.
func resultsFor(m chat.Message, turn []chat.Message) (results chat.Message, ok bool) {
	answered := map[string]bool{} // by the provider, in the assistant message itself
	for _, p := range m.ToolResults() {
		answered[p.ToolCallID] = true
	}
	found := map[string]chat.Part{}
	results = chat.Message{Role: chat.Tool}
	var others []chat.Part
	for _, t := range turn {
		if t.Role != chat.Tool {
			continue
		}
		if results.ProviderOptions == nil {
			results.ProviderOptions, results.Extra = t.ProviderOptions, t.Extra
		}
		for _, p := range t.Parts {
			if p.Type != chat.TypeToolResult {
				others = append(others, p)
			} else if _, ok := found[p.ToolCallID]; !ok {
				found[p.ToolCallID] = p
			}
		}
	}
	for _, c := range m.ToolCalls() {
		if answered[c.ToolCallID] {
			continue
		}
		r, ok := found[c.ToolCallID]
		if !ok {
			r = chat.ToolResult(c.ToolCallID, c.ToolName, noResult, true)
		}
		results.Parts = append(results.Parts, r)
	}
	if len(results.Parts) == 0 {
		return chat.Message{}, false
	}
	results.Parts = append(results.Parts, others...)
	return results, true
}

func dropRepeatedCalls(m chat.Message) chat.Message {
	seen := map[string]bool{}
	kept := make([]chat.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		if p.Type == chat.TypeToolCall {
			if seen[p.ToolCallID] {
				continue
			}
			seen[p.ToolCallID] = true
		}
		kept = append(kept, p)
	}
	if len(kept) != len(m.Parts) {
		m.Parts = kept
	}
	return m
}

// isEmptyMessage reports whether providers refuse an assistant message: it is empty, or
// has only blank text and reasoning (of an interrupted call).
func isEmptyMessage(m chat.Message) bool {
	for _, p := range m.Parts {
		switch p.Type {
		case chat.TypeReasoning:
		case chat.TypeText:
			if strings.TrimSpace(p.Text) != "" {
				return false
			}
		default:
			return false
		}
	}
	return true
}
