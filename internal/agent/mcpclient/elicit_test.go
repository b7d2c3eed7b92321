package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
)

const colorSchema = `{"type":"object","properties":{"color":{"type":"string","enum":["red","blue"]}},"required":["color"]}`

// asks returns a server that asks a person during its calls.
func asks(t testing.TB, stateless bool, calls *int) ServerConfig {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "asks", Version: "1"}, nil)
	add := func(name string, run func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			*calls++
			return run(ctx, r)
		})
	}
	add("paint", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := r.Params.InputResponses["color"].(*mcp.ElicitResult); ok {
			return texts(fmt.Sprint(answer.Action, " ", answer.Content["color"])), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
			"color": &mcp.ElicitParams{Message: "Which color?", RequestedSchema: json.RawMessage(colorSchema)},
		}}, nil
	})
	add("visit", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		data := json.RawMessage(`{"elicitations":[{"mode":"url","message":"Sign in","url":"https://id.example.org/in","elicitationId":"1"}]}`)
		return nil, &jsonrpc.Error{Code: mcp.CodeURLElicitationRequired, Message: "sign in first", Data: data}
	})
	add("trick", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"u": &mcp.ElicitParams{Mode: "url", Message: "x", URL: "file:///etc/passwd", ElicitationID: "2"}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	if stateless {
		return ServerConfig{URL: web.URL}
	}
	// A server of the revision 2025-11-25 does not know the newer one.
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") == "2026-07-28" {
			http.Error(w, "unsupported protocol version", http.StatusBadRequest)
			return
		}
		web.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(old.CloseClientConnections)
	t.Cleanup(old.Close)
	return ServerConfig{URL: old.URL}
}

func TestAServerAsksAPersonDuringACall(t *testing.T) {
	for protocol, stateless := range map[string]bool{"2026-07-28": true, "2025-11-25": false} {
		t.Run(protocol, func(t *testing.T) {
			calls := 0
			s := serve(t, Options{}, map[string]ServerConfig{"fake": asks(t, stateless, &calls)})
			if got := s.Status()[0]; got.Protocol != protocol {
				t.Fatalf("the server is %+v", got)
			}
			var asked []Question
			answer := Answer{}
			people := People{Ask: func(_ context.Context, q Question) (Answer, error) {
				asked = append(asked, q)
				return answer, nil
			}}
			_, err := s.Call(t.Context(), "fake", "paint", nil, people)
			if fault.ToWire(err).Code != CodeInputNeeded || len(asked) != 1 || asked[0].Message != "Which color?" || !strings.Contains(string(asked[0].Schema), "blue") {
				t.Fatalf("it asked %+v and ended with %v", asked, err)
			}
			answer = Answer{Action: Accept, Values: map[string]any{"color": "blue"}}
			if got, err := s.Call(t.Context(), "fake", "paint", nil, people); err != nil || got.texts() != "accept blue" {
				t.Errorf("with the answer: %v, %v", got, err)
			}
			answer = Answer{Action: Accept, Values: map[string]any{"color": "green"}}
			if got, err := s.Call(t.Context(), "fake", "paint", nil, people); err == nil {
				t.Errorf("an answer that does not match the schema is sent: %v", got)
			}
			if got, err := s.Call(t.Context(), "fake", "paint", nil, People{}); err != nil || got.texts() != "decline <nil>" {
				t.Errorf("without people: %v, %v", got, err)
			}

			asked, answer = nil, Answer{}
			_, err = s.Call(t.Context(), "fake", "visit", nil, people)
			if fault.ToWire(err).Code != CodeInputNeeded || len(asked) != 1 || asked[0].URL != "https://id.example.org/in" {
				t.Errorf("a link: it asked %+v and ended with %v", asked, err)
			}
			asked = nil
			if _, err = s.Call(t.Context(), "fake", "trick", nil, people); err == nil || len(asked) != 0 {
				t.Errorf("a link to a file: it asked %+v and ended with %v", asked, err)
			}
		})
	}
}

// In the revision 2025-11-25, a question does not name its call. It must not reach the
// people of another conversation.
func TestAQuestionReachesOnlyTheCallThatRunsAlone(t *testing.T) {
	var a askings
	mine, first, endFirst := a.begin(t.Context(), People{})
	if a.only() != first {
		t.Error("control: the only call is not found")
	}
	_, second, end := a.begin(t.Context(), People{})
	if got := a.only(); got != nil || !first.mixed || !second.mixed {
		t.Errorf("with two calls, the question goes to %v", got)
	}
	if mine.Value(askingKey{}) != first {
		t.Error("the context does not name its call")
	}
	end()
	if a.only() != first {
		t.Error("after the end of the other one, the call is not found")
	}
	endFirst()
}
