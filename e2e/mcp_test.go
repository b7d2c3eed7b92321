package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

type mcpInput struct {
	Text string `json:"text"`
}

// mcpServer is an MCP server with 300 tools, over HTTP. Its tool hang never answers, and
// counts its calls.
func mcpServer(t testing.TB) (address string, hung *atomic.Int32, calls chan struct{}) {
	t.Helper()
	_, address, hung, calls = mcpPeer(t)
	return address, hung, calls
}

func mcpPeer(t testing.TB) (server *mcp.Server, address string, hung *atomic.Int32, calls chan struct{}) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	add := func(name string, run func(ctx context.Context, in mcpInput) string) {
		mcp.AddTool(server, &mcp.Tool{Name: name, Description: "canary-description of " + name}, func(ctx context.Context, _ *mcp.CallToolRequest, in mcpInput) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: run(ctx, in)}}}, nil, nil
		})
	}
	for i := range 298 {
		add(fmt.Sprintf("canary_%03d", i), func(context.Context, mcpInput) string { return "" })
	}
	hung, calls = new(atomic.Int32), make(chan struct{}, 8)
	add("echo", func(_ context.Context, in mcpInput) string { return "echo of " + in.Text })
	add("hang", func(ctx context.Context, _ mcpInput) string {
		hung.Add(1)
		calls <- struct{}{}
		<-ctx.Done()
		return ""
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return server, web.URL + "/mcp", hung, calls
}

// The agent uses a tool of an MCP server in a command. 300 tools change nothing of what the
// model receives. A call that kill -9 interrupts is not repeated, and the agent is told that
// its outcome is unknown.
func TestTheAgentUsesAToolOfAnMCPServer(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	address, hung, calls := mcpServer(t)
	script := func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		for _, text := range last.Results {
			return llmtest.Say("It said: " + text)
		}
		if strings.Contains(last.Text, "hang") {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-2", Name: "bash", Input: `{"command":"tools mcp.fake.hang --text=x"}`}}}
		}
		return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":"tools mcp.fake.echo --text=lilac; tools --list | grep -c canary_; tools mcp.denied.echo --text=x; echo exit code $?"}`}}}
	}
	first := func(config string) (llmtest.Request, *e2e.Server, string) {
		received := make(chan llmtest.Request, 64)
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			received <- r
			return script(r)
		})
		s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, config)...)...)
		s.Restart()
		a := s.Prompt(s.NewSession(), "use the tool", event.Prompt)
		s.WaitEnded(a.RequestID, answerWithin)
		var story json.RawMessage
		s.Request("GET", "/requests/"+a.RequestID, nil, &story)
		return <-received, s, string(story)
	}
	with, s, story := first(fmt.Sprintf(`{mcpServers: {fake: {url: %q}, denied: {url: %q}}, surface: {web: {tools: {deny: [mcp.denied]}}}}`, address, address))
	without, _, _ := first("{}")
	for _, want := range []string{"echo of lilac", `298`, "exit code 3", "Surface.web.tools does not allow mcp.denied.echo", `"callable":"mcp.fake.echo"`, `"outcome":"started"`} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q: %s", want, story)
		}
	}
	if strings.Contains(string(with.Body), "canary") || !slices.Equal(with.Tools, without.Tools) || len(with.Body) != len(without.Body) {
		t.Errorf("the model receives %d bytes and the tools %q, without servers %d bytes and %q", len(with.Body), with.Tools, len(without.Body), without.Tools)
	}

	a := s.Prompt(s.NewSession(), "hang", event.Prompt)
	<-calls
	s.Kill()
	s.Restart()
	s.WaitEnded(a.RequestID, answerWithin)
	var ended json.RawMessage
	s.Request("GET", "/requests/"+a.RequestID, nil, &ended)
	if !strings.Contains(string(ended), "outcome is unknown") || hung.Load() != 1 {
		t.Errorf("the tool was called %d times; the story is %s", hung.Load(), ended)
	}
}

// Another program uses the callables over MCP, if the operator has turned that on.
func TestAnotherProgramUsesCallablesOverMCP(t *testing.T) {
	t.Parallel()
	for _, serve := range []bool{false, true} {
		s := e2e.New(t, e2e.Configured(t, fmt.Sprintf("{mcp: {serve: %v}}", serve))...)
		s.Restart()
		var made struct{ Token string }
		s.Request("POST", "/tools/tokens", map[string]any{"name": "ide", "callables": []string{"surface.sessions.*"}}, &made)
		client := mcp.NewClient(&mcp.Implementation{Name: "ide"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: "http://" + s.Addr + "/mcp", HTTPClient: &http.Client{Transport: withToken(made.Token)},
		}, nil)
		if (err == nil) != serve {
			t.Fatalf("with serve: %v, connecting ends with %v", serve, err)
		}
		if !serve {
			continue
		}
		defer session.Close()
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil || len(tools.Tools) != 1 {
			t.Fatalf("it offers %v, %v", tools, err)
		}
		id := s.NewSession()
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "surface__sessions__list"})
		if err != nil || got.IsError || !strings.Contains(got.Content[0].(*mcp.TextContent).Text, id) {
			t.Errorf("the list lacks %s: %v, %v", id, got, err)
		}
	}
}

// withToken adds a token to each request.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// A server that changes its tools makes an event, which a rule turns into a request. The
// server's text may only make it read, unless the rule says more.
func TestAChangeOfAnMCPServerTriggersARule(t *testing.T) {
	t.Parallel()
	server, address, _, _ := mcpPeer(t)
	const rule = `
mcpServers: {fake: {url: %q}}
rules:
  tools: {when: {type: mcp.tools.changed, if: '.payload.server == "fake"'}, do: {agent: {prompt: "New: {{ .payload.added[0] }}"}}, session: "title:ops"}
`
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if last := r.Messages[len(r.Messages)-1]; strings.Contains(last.Text, "New: fresh") {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "bash", Input: `{"command":"touch effect"}`}}}
		}
		return llmtest.Script{Text: llmtest.Words(opsAnswer)}
	})
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, fmt.Sprintf(rule, address))...)...)
	s.Restart()
	ops := named(t, s, "ops")
	e2e.Eventually(t, answerWithin, "the server is ready", func() bool {
		_, list := s.Get("/tools/mcp")
		return strings.Contains(list, `"state":"ready"`)
	})
	mcp.AddTool(server, &mcp.Tool{Name: "fresh"}, func(context.Context, *mcp.CallToolRequest, mcpInput) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{}, nil, nil
	})
	e2e.Eventually(t, answerWithin, "the agent has answered", func() bool { answers, _ := said(s, ops); return answers > 0 })
	if _, err := os.Stat(filepath.Join(s.Workspace(ops), "effect")); err == nil {
		t.Error("the event of a server made the agent run a command")
	}
}

// Pinned tools are among the tools of the model, under the same policy. A conversation keeps
// those with which it began.
func TestPinnedToolsOfAnMCPServerBelongToTheModel(t *testing.T) {
	t.Parallel()
	server, address, _, _ := mcpPeer(t)
	requests := make(chan llmtest.Request, 64)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		requests <- r
		if last := r.Messages[len(r.Messages)-1]; len(last.Results) == 0 {
			return llmtest.Script{Calls: []llmtest.Call{
				{ID: fmt.Sprint("a", r.N), Name: "mcp__fake__echo", Input: `{"text":"lilac"}`}, {ID: fmt.Sprint("b", r.N), Name: "mcp__denied__echo", Input: `{"text":"x"}`},
			}}
		}
		return llmtest.Say("Done.")
	})
	config := fmt.Sprintf(`{mcpServers: {fake: {url: %q}, denied: {url: %q}}, mcp: {pin: [mcp.fake.echo, mcp.denied.echo]}, surface: {web: {tools: {deny: [mcp.denied]}}}}`, address, address)
	s := e2e.New(t, append(modelEnv(model.URL), e2e.Configured(t, config)...)...)
	s.Restart()
	session := s.NewSession()
	ask := func() (tools []string, story string) {
		t.Helper()
		a := s.Prompt(session, "use it", event.Prompt)
		s.WaitEnded(a.RequestID, answerWithin)
		var out json.RawMessage
		s.Request("GET", "/requests/"+a.RequestID, nil, &out)
		r := <-requests
		<-requests
		return r.Tools, string(out)
	}
	tools, story := ask()
	if !slices.Contains(tools, "mcp__fake__echo") || !slices.Contains(tools, "bash") {
		t.Errorf("the model has the tools %q", tools)
	}
	for _, want := range []string{"echo of lilac", "Not run: Surface.web.tools does not allow mcp__denied__echo"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks %q: %s", want, story)
		}
	}
	server.RemoveTools("echo")
	e2e.Eventually(t, answerWithin, "the change is known", func() bool {
		_, list := s.Get("/tools/mcp")
		return strings.Count(list, `"tools":299`) == 2
	})
	again, story := ask()
	if !slices.Equal(again, tools) {
		t.Errorf("the tools of the conversation changed from %q to %q", tools, again)
	}
	if strings.Contains(story, "echo of lilac") {
		t.Error("a tool that is gone still answers")
	}
}
