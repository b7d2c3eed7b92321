package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/mcpserver"
	"lilac/internal/serve/toolserver"
	"lilac/internal/store"
)

type echoInput struct {
	Text string `json:"text" min:"1"`
}

// world is an MCP server with three callables.
type world struct {
	operators *toolserver.Operators
	tools     *toolserver.Server
	address   string
}

func newWorld(t *testing.T) world {
	t.Helper()
	database, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: store.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	w := world{operators: &toolserver.Operators{DB: database, Table: store.OperatorTokens{}}}
	callable := func(id string, changes bool, run func(caller toolserver.Caller, in echoInput) (any, error)) toolserver.Callable {
		return toolserver.NewCallable(toolserver.Callable{ID: id, Summary: "Says " + id, Changes: changes, Repeatable: !changes}, func(_ context.Context, caller toolserver.Caller, in echoInput) (any, error) {
			return run(caller, in)
		})
	}
	foreign := func(id, schema string) toolserver.Callable {
		return toolserver.NewForeign(toolserver.Callable{ID: id, Summary: "Says its id"}, json.RawMessage(schema), func(input json.RawMessage) (json.RawMessage, error) { return input, nil },
			func(context.Context, toolserver.Caller, json.RawMessage) (any, error) { return id, nil })
	}
	w.tools, err = toolserver.New(toolserver.Options{
		Operators: w.operators, Alive: func(toolserver.Grant) bool { return true },
		Callables: []toolserver.Callable{
			callable("surface.echo", false, func(caller toolserver.Caller, in echoInput) (any, error) {
				if caller.Progress != nil {
					caller.Progress("half way")
				}
				return in.Text + " for " + caller.Operator, nil
			}),
			callable("surface.object", true, func(toolserver.Caller, echoInput) (any, error) { return map[string]any{"n": 1}, nil }),
			callable("surface.fail", true, func(toolserver.Caller, echoInput) (any, error) {
				return nil, fault.New(fault.Conflict, "It is too late.")
			}),
			callable("mcp.cam.shot", true, func(toolserver.Caller, echoInput) (any, error) {
				return json.RawMessage(`{"structured":{"n":1},"content":[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","bytes":3,"data":"cG5n"},` +
					`{"type":"audio","mimeType":"audio/wav","data":"d2F2"},{"type":"resource","uri":"x:b","text":"inside"},{"type":"resource_link","uri":"x:c","name":"c"}]}`), nil
			}),
			callable("mcp.cam.odd", true, func(toolserver.Caller, echoInput) (any, error) {
				return json.RawMessage(`{"content":[{"type":"other"}]}`), nil
			}),
			foreign("mcp.odd.header", `{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"a b"}}}`),
			foreign("mcp.odd.twins.one", `{"type":"object"}`),
			foreign("mcp.odd.twins__one", `{"type":"object"}`),
			foreign("mcp.odd."+strings.Repeat("x", 60)+"1", `{"type":"object"}`),
			foreign("mcp.odd."+strings.Repeat("x", 60)+"2", `{"type":"object"}`),
			callable("secret.read", false, func(toolserver.Caller, echoInput) (any, error) { return "secret", nil }),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(mcpserver.New(mcpserver.Options{Tools: w.tools, Version: "1", Logger: slog.New(slog.DiscardHandler)}))
	t.Cleanup(web.Close)
	w.address = web.URL + "/mcp"
	return w
}

// bearer adds a token to each request, and refuses a stream that nginx would hold back.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") && response.Header.Get("X-Accel-Buffering") != "no" {
		return nil, errors.Join(errors.New("the stream lacks X-Accel-Buffering: no"), response.Body.Close())
	}
	return response, err
}

func (w world) connect(t *testing.T, token string, show func(string), revision string) (*mcp.ClientSession, error) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { show(r.Params.Message) },
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: w.address, HTTPClient: &http.Client{Transport: bearer(token)}}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func TestAnotherProgramUsesTheCallablesThatItsTokenAllows(t *testing.T) {
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			w := newWorld(t)
			token, err := w.operators.Create(t.Context(), "ide", []string{"surface.*"}, "")
			if err != nil {
				t.Fatal(err)
			}
			shown := make(chan string, 8)
			session, err := w.connect(t, token, func(line string) { shown <- line }, revision)
			if err != nil {
				t.Fatal(err)
			}
			if got := session.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("the revision is %s", got)
			}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if tools.CacheScope != "private" {
				t.Errorf("the list of one token may be given to others (cacheScope is %q)", tools.CacheScope)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
				if changes := tool.Name != "surface__echo"; tool.Annotations.ReadOnlyHint == changes {
					t.Errorf("the hints of %s are %+v", tool.Name, tool.Annotations)
				}
			}
			if !slices.Equal(names, []string{"surface__echo", "surface__fail", "surface__object"}) {
				t.Errorf("it offers %q", names)
			}
			call := func(name string, arguments any) (*mcp.CallToolResult, error) {
				params := &mcp.CallToolParams{Name: name, Arguments: arguments}
				params.SetProgressToken("p")
				return session.CallTool(t.Context(), params)
			}
			for _, c := range []struct {
				name, text string
				failed     bool
			}{
				{"surface__echo", `hi for ide`, false},
				{"surface__object", `{"n":1}`, false},
				{"surface__fail", "It is too late.", true},
			} {
				got, err := call(c.name, map[string]any{"text": "hi"})
				if err != nil || got.IsError != c.failed || got.Content[0].(*mcp.TextContent).Text != c.text {
					raw, _ := json.Marshal(got)
					t.Errorf("%s: %s, %v", c.name, raw, err)
				}
			}
			select {
			case line := <-shown:
				if line != "half way" {
					t.Errorf("the progress is %q", line)
				}
			case <-time.After(10 * time.Second):
				t.Error("there was no progress")
			}
			if got, err := call("surface__echo", map[string]any{}); err != nil || !got.IsError || !strings.Contains(got.Content[0].(*mcp.TextContent).Text, "text") {
				t.Errorf("a call without its field: %v, %v", got, err)
			}
			if _, err := call("secret__read", map[string]any{"text": "x"}); err == nil {
				t.Error("a callable that the token does not allow was called")
			}
			calls, err := w.operators.Calls(t.Context(), 20, 0)
			if err != nil || len(calls) < 4 || calls[len(calls)-1].Operator != "ide" {
				t.Errorf("the records are %+v, %v", calls, err)
			}
			if err := w.operators.Revoke(t.Context(), "ide"); err != nil {
				t.Fatal(err)
			}
			if _, err := call("surface__echo", map[string]any{"text": "x"}); err == nil {
				t.Error("a token that was revoked still works")
			}
		})
	}
}

// A model that uses Lilac sees the pictures of Lilac's own MCP servers, not their bytes.
func TestResultsOfMCPServersKeepTheirTypes(t *testing.T) {
	w := newWorld(t)
	token, err := w.operators.Create(t.Context(), "ide", []string{"mcp.*"}, "")
	if err != nil {
		t.Fatal(err)
	}
	session, err := w.connect(t, token, func(string) {}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"mcp__cam__shot": `"content":[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","data":"cG5n"},{"type":"audio","mimeType":"audio/wav","data":"d2F2"},` +
			`{"type":"resource","resource":{"uri":"x:b","text":"inside"}},{"type":"resource_link","uri":"x:c","name":"c"}],"structuredContent":{"n":1}`,
		"mcp__cam__odd": `"content":[{"type":"text","text":"{\"content\":[{\"type\":\"other\"}]}"}]`,
	} {
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": "x"}})
		if raw, _ := json.Marshal(got); err != nil || !strings.Contains(string(raw), want) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
}

// Hosts put the name of the server before that of a tool, and models allow 64 characters. One odd tool must not hide the others.
func TestEveryCallableHasANameThatHostsCanUse(t *testing.T) {
	w := newWorld(t)
	token, err := w.operators.Create(t.Context(), "ide", []string{"mcp.odd.*"}, "")
	if err != nil {
		t.Fatal(err)
	}
	session, err := w.connect(t, token, func(string) {}, "2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, tool := range list.Tools {
		if len("mcp__lilac__"+tool.Name) > 64 || !strings.HasPrefix(tool.Name, "mcp__odd__") {
			t.Errorf("a tool has the name %q", tool.Name)
		}
		got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool.Name, Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		said[got.Content[0].(*mcp.TextContent).Text] = true
	}
	if len(list.Tools) != 4 || len(said) != 4 {
		t.Errorf("%d tools do %v", len(list.Tools), said)
	}
	if name := mcpserver.Name("mcp.odd." + strings.Repeat("x", 60)); name != "mcp__odd__xxxxxxxxxxxxxxxxxxxxxxxxxxxxx_4c10bea6" { // hosts keep permissions by name
		t.Errorf("the name is %q", name)
	}
}

func TestOnlyTokensOfOperatorsAreAdmitted(t *testing.T) {
	w := newWorld(t)
	ofCommand, revoke, err := w.tools.Mint(toolserver.Grant{RequestID: "r", SessionID: "s", Callables: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer revoke()
	for name, token := range map[string]string{"none": "", "wrong": "lilac_" + strings.Repeat("0", 64), "of a command": ofCommand} {
		if _, err := w.connect(t, token, func(string) {}, ""); err == nil {
			t.Errorf("the token %s is admitted", name)
		}
		response, err := (&http.Client{Transport: bearer(token)}).Post(w.address, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("the token %s: %d", name, response.StatusCode)
		}
	}
}
