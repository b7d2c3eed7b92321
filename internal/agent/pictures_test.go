package agent_test

import (
	"strings"
	"testing"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
)

// A picture costs the same however many bytes it has; the same bytes as text cost more than
// a window.
func TestAPictureInAResultCostsAsMuchAsOneInAMessage(t *testing.T) {
	bytes := strings.Repeat("A", 4<<20)
	picture := chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.MediaResult("c", "read", "a.png", []chat.Part{chat.ResultImage(bytes, "image/png")})}}
	if n := agent.EstimateTokens([]chat.Message{picture}); n < 1_000 || n > 3_000 {
		t.Errorf("a picture is estimated at %d tokens", n)
	}
	text := chat.Message{Role: chat.Tool, Parts: []chat.Part{chat.ToolResult("c", "read", bytes, false)}}
	if n := agent.EstimateTokens([]chat.Message{text}); n < 1_000_000 {
		t.Errorf("control: the bytes as text are estimated at %d tokens", n)
	}
}
