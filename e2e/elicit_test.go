package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// A question of an MCP server waits in the conversation through a kill. The answer goes to
// the server when the agent repeats the call, and to nobody else.
func TestAQuestionOfAnMCPServerSurvivesAKill(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	peer := mcp.NewServer(&mcp.Implementation{Name: "paint", Version: "1"}, nil)
	peer.AddTool(&mcp.Tool{Name: "wall", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := r.Params.InputResponses["color"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"color": &mcp.ElicitParams{
				Message: "Which color?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"color":{"type":"string","enum":["red","blue"]}},"required":["color"]}`),
			}}}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("painted ", answer.Content["color"])}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return peer }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		for _, text := range r.Messages[len(r.Messages)-1].Results {
			if strings.Contains(text, "painted") {
				return llmtest.Say("It said: " + text)
			}
		}
		return llmtest.Script{Calls: []llmtest.Call{{ID: fmt.Sprint("call-", len(r.Messages)), Name: "bash", Input: `{"command":"tools mcp.paint.wall"}`}}}
	})
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, fmt.Sprintf(`{mcpServers: {paint: {url: %q}}}`, web.URL))...)...)
	s.Restart()
	session := s.NewSession()
	a := s.Prompt(session, "paint the wall", event.Prompt)
	waits := func() bool {
		var out struct{ Paused struct{ Question string } }
		s.Request("GET", "/sessions/"+session, nil, &out)
		return strings.Contains(out.Paused.Question, "The MCP server paint asks:\n> Which color?")
	}
	e2e.Eventually(t, answerWithin, "it asks", waits)
	s.Kill()
	s.Restart()
	if !waits() {
		t.Error("the question is gone after the kill")
	}
	answer := func(reply string) int {
		return s.Request("POST", "/requests/"+a.RequestID+"/answer", map[string]any{"answer": "reply", "reply": reply}, nil)
	}
	if code := answer("green"); code != http.StatusBadRequest {
		t.Errorf("a color that the schema does not allow: %d", code)
	}
	if code := answer("Blue"); code != http.StatusOK {
		t.Errorf("the answer: %d", code)
	}
	end := s.WaitEnded(a.RequestID, answerWithin)
	var story json.RawMessage
	s.Request("GET", "/requests/"+a.RequestID, nil, &story)
	if end.State != "done" || !strings.Contains(string(story), "painted blue") || !strings.Contains(string(story), `"kind":"resumed"`) {
		t.Errorf("ended as %s: %s", end.State, story)
	}
}
