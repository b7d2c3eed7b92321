package agent

import (
	"fmt"
	"math"
	"slices"

	"lilac/internal/foundation/chat"
)

// minResultTokens is the minimum size of a shortened tool result, in tokens.
const minResultTokens = 128

// firstUnseen returns the index of the first message that the model has not seen and must
// get: its own last step if that has results; otherwise the last message and as many
// before it as fit into room.
func firstUnseen(messages []chat.Message, room int) int {
	last := len(messages) - 1
	for last >= 0 && messages[last].Role != chat.Assistant {
		if messages[last].Role == chat.Tool {
			return lastAssistantIndex(messages[:last])
		}
		last--
	}
	from := len(messages)
	for i := from - 1; i > last; i-- {
		room -= EstimateTokens(messages[i : i+1])
		if room < 0 && from < len(messages) || isSummary(messages[i]) {
			break
		}
		from = i
	}
	return from
}

// lastAssistantIndex returns the index of the last assistant message, or 0.
func lastAssistantIndex(messages []chat.Message) int {
	for i, m := range slices.Backward(messages) {
		if m.Role == chat.Assistant {
			return i
		}
	}
	return 0
}

// shortenResults shortens the tool results from an index on, the longest first, so that
// these messages have at most room tokens. It does not modify its argument.
func shortenResults(messages []chat.Message, from, room int) []chat.Message {
	over := EstimateTokens(messages[from:]) - room
	if over <= 0 {
		return messages
	}
	var sizes []int
	for _, m := range messages[from:] {
		for _, p := range m.ToolResults() {
			sizes = append(sizes, outputTokens(p))
		}
	}
	most := max(minResultTokens, fairShare(sizes, over))
	out := slices.Clone(messages)
	for i := from; i < len(out); i++ {
		cloned := false
		for j, p := range out[i].Parts {
			if p.Type != chat.TypeToolResult || outputTokens(p) <= most {
				continue
			}
			if !cloned {
				out[i].Parts, cloned = slices.Clone(out[i].Parts), true
			}
			out[i].Parts[j] = shortenResult(p, most)
		}
	}
	return out
}

// fairShare returns the maximum size of each result with which all together shrink by
// over.
func fairShare(sizes []int, over int) int {
	left := -over
	for _, n := range sizes {
		left += n
	}
	slices.Sort(sizes)
	for i, n := range sizes {
		if share := left / (len(sizes) - i); n > share {
			return share
		}
		left -= n
	}
	return math.MaxInt
}

// shortenResult returns a tool result of about so many tokens, with a note that it is
// incomplete.
func shortenResult(p chat.Part, tokens int) chat.Part {
	text, failed := p.OutputText()
	for size := tokens * bytesPerToken; size > 0; size = size * 3 / 4 {
		short := fmt.Sprintf("[Too long for the context: only the beginning and the end of %d bytes are shown. Ask for less at once.]\n%s", len(text), shorten(text, size))
		if r := chat.ToolResult(p.ToolCallID, p.ToolName, short, failed); rawTokens(r.Output) <= tokens {
			p.Output = r.Output
			break
		}
	}
	return p
}
