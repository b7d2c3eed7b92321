package mcpclient

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
)

// A proxy may give up, and a connection break off, while the server works on a call. The agent must not
// be told that the call was refused.
func TestACallWithoutAnAnswerOverHTTPMayHaveTakenEffect(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(http.ResponseWriter)
		kind    fault.Kind
		unknown bool
		says    string
	}{
		"no route":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) }, fault.Unavailable, true, "Gateway Timeout"},
		"a fault":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, fault.Unavailable, true, "Internal Server Error"},
		"a broken line": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, fault.Unavailable, true, "EOF"},
		"too many":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, fault.RateLimited, false, "has not handled the call"},
	} {
		t.Run(name, func(t *testing.T) {
			broken, server := atomic.Bool{}, fake("good")
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true})
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if broken.Load() && bytes.Contains(body, []byte(`"tools/call"`)) {
					c.end(w)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(web.Close)
			s := serve(t, Options{}, map[string]ServerConfig{"fake": {URL: web.URL + "/mcp?key=canary"}})
			call := func() error {
				_, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "hi"}), People{})
				return err
			}
			if err := call(); err != nil {
				t.Fatal(err)
			}
			broken.Store(true)
			err := call()
			if wire := fault.ToWire(err); wire.Kind != c.kind || wire.Code == CodeUnknown != c.unknown || !strings.Contains(wire.Message, c.says) || strings.Contains(wire.Message, "canary") {
				t.Errorf("the call failed with %+v", wire)
			}
			broken.Store(false)
			if err := call(); err != nil {
				t.Errorf("the next call: %v", err)
			}
			web.CloseClientConnections()
			web.Close()
			// Until the client has seen the end of its idle connections, a call may break off instead.
			eventually(t, "a call is known not to have reached the server", func() bool {
				wire := fault.ToWire(call())
				return wire.Kind == fault.Unavailable && wire.Code != CodeUnknown && strings.Contains(wire.Message, "has not received the call")
			})
		})
	}
}

// The address of a server may contain a key, which must not be in a list, a log, or the conversation.
func TestAServerThatIsDownKeepsItsAddress(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	o := Options{}
	o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
	s := serve(t, o, map[string]ServerConfig{"fake": {URL: web.URL + "/mcp?key=canary"}})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "refused") || strings.Contains(got.Trouble, "canary") {
		t.Errorf("the server is %+v", got)
	}
}

// Files of other products don't say that a server is an older one, and their programs try both.
func TestAnOlderServerNeedsNoType(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusForbidden} {
		older := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return fake("good") }, nil)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.RawQuery == "" {
				http.Error(w, "Cannot POST "+r.URL.Path, status)
				return
			}
			older.ServeHTTP(w, r)
		}))
		t.Cleanup(web.Close)
		t.Cleanup(web.CloseClientConnections)
		o := Options{}
		o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
		s := serve(t, o, map[string]ServerConfig{"fake": {URL: web.URL + "/sse"}})
		got := s.Status()[0]
		if status == http.StatusForbidden {
			if got.State == Ready {
				t.Errorf("%d: the server is %+v", status, got)
			}
			continue
		}
		if got.State != Ready || got.Transport != transportSSE {
			t.Errorf("%d: the server is %+v", status, got)
		}
		if _, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "hi"}), People{}); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestAnAddressWithoutAServerSaysWhatWasTried(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	o := Options{}
	o.limits.backoff = func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }
	s := serve(t, o, map[string]ServerConfig{"fake": {URL: web.URL + "/mcp?key=canary"}})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "no MCP server at its url") || !strings.Contains(got.Trouble, "type: sse") || strings.Contains(got.Trouble, "canary") {
		t.Errorf("the server is %+v", got)
	}
}

// The agent must not believe that the server ended, and repeat the call.
func TestAResultThatBreaksTheProtocolIsAnAnswer(t *testing.T) {
	var result string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := `"error":{"code":-32601,"message":"no"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"odd","version":"1"}}`
		case "tools/list":
			answer = `"result":{"tools":[]}`
		case "tools/call":
			answer = `"result":` + result
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,`+answer+`}`)
	}))
	t.Cleanup(web.Close)
	s := serve(t, Options{}, map[string]ServerConfig{"odd": {URL: web.URL + "/mcp"}})
	for _, result = range []string{
		`{"content":"plain"}`, `{"content":[{"type":"video","uri":"x"}]}`, `{"content":[{"type":"image","mimeType":"image/png","data":"data:image/png;base64,iVBORw0KGgo="}]}`,
		`{"content":[{"type":"text","text":"a","annotations":{"priority":"high"}}]}`,
	} {
		_, err := s.Call(t.Context(), "odd", "x", nil, People{})
		if wire := fault.ToWire(err); wire.Kind != fault.Conflict || wire.Code != CodeUnknown || !strings.Contains(wire.Message, "has answered the call") {
			t.Errorf("%s: %+v", result, wire)
		}
	}
	if got := s.Status()[0]; got.State != Ready || got.Restarts != 0 {
		t.Errorf("the server is %+v", got)
	}
}
