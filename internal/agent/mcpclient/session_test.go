package mcpclient

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
)

// forgetful is an HTTP server that can forget its sessions, as servers do when they are started again, or
// when nobody has called for some minutes.
type forgetful struct {
	server  atomic.Pointer[mcp.Server]
	handler atomic.Pointer[mcp.StreamableHTTPHandler]
	// always forgets the session before each call of a tool.
	always bool
	// refuses answers a session that it has forgotten with 400 and a text, as many servers do, instead of 404.
	refuses string
	// silent answers no messages but calls of tools.
	silent atomic.Bool
	calls  atomic.Int32
}

func (f *forgetful) forget() {
	server := fake("good")
	f.handler.Store(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	f.end(f.server.Swap(server))
}

// end ends the sessions of a server.
func (*forgetful) end(server *mcp.Server) {
	if server == nil {
		return
	}
	for session := range server.Sessions() {
		_ = session.Close() // its client may be gone
	}
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.Contains(string(body), `"tools/call"`) {
		f.calls.Add(1)
		if f.always {
			f.forget()
		}
	} else if f.silent.Load() && r.Method == http.MethodPost {
		<-r.Context().Done()
		return
	}
	if f.refuses == "" || !strings.Contains(string(body), `"tools/call"`) {
		f.handler.Load().ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	if f.handler.Load().ServeHTTP(answer, r); answer.Code == http.StatusNotFound {
		http.Error(w, f.refuses, http.StatusBadRequest)
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func startForgetful(t *testing.T, always bool, session time.Duration) (*forgetful, *Servers) {
	t.Helper()
	return startRefusing(t, always, session, "")
}

func startRefusing(t *testing.T, always bool, session time.Duration, refuses string) (*forgetful, *Servers) {
	t.Helper()
	f := &forgetful{always: always, refuses: refuses}
	f.forget()
	web := httptest.NewServer(f)
	t.Cleanup(func() {
		f.end(f.server.Load())
		web.CloseClientConnections()
		web.Close()
	})
	return f, serve(t, Options{limits: limits{session: session}}, map[string]ServerConfig{"fake": {URL: web.URL + "/mcp"}})
}

func TestAForgottenSessionIsReplacedAndTheCallMadeAgain(t *testing.T) {
	for _, refuses := range []string{"", `{"error":{"message":"Bad Request: No valid session ID provided"}}`, "Bad Request: Server not initialized"} {
		t.Run(refuses, func(t *testing.T) {
			f, s := startRefusing(t, false, 1, refuses)
			for range 3 {
				if got, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "here"}), People{}); err != nil || got.texts() != "here0" {
					t.Fatalf("%q, %v", got.texts(), err)
				}
				f.forget()
			}
			if status := s.Status()[0]; status.Restarts != 0 {
				t.Errorf("it counts as failed: %+v", status)
			}
		})
	}
}

// A server that keeps no session is no reason to try for ever.
func TestAServerThatForgetsEachSessionAtOnceIsGivenUp(t *testing.T) {
	for name, session := range map[string]time.Duration{"at once": 1, "later": time.Hour} {
		t.Run(name, func(t *testing.T) {
			f, s := startForgetful(t, true, session)
			_, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "here"}), People{})
			if wire := fault.ToWire(err); wire.Kind != fault.Unavailable || wire.Code == CodeUnknown {
				t.Errorf("%v", err)
			}
			if n := f.calls.Load(); n > 2 {
				t.Errorf("the call was made %d times", n)
			}
		})
	}
}

// A call that waits for another session ends with its server.
func TestACallThatWaitsForASessionEndsWithItsServer(t *testing.T) {
	f, s := startForgetful(t, false, 1)
	f.silent.Store(true)
	f.forget()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "here"}), People{})
		ended <- err
	}()
	eventually(t, "another session begins", func() bool { return f.calls.Load() == 1 && s.Status()[0].State == Starting })
	s.Set(nil)
	select {
	case err := <-ended:
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a server that is gone")
	}
}

// Only the refusal of the call itself says that the server has not handled it. The request that continues its
// stream is refused, too, after the server was started again.
func TestOnlyItsOwnRefusalSaysThatACallWasNotHandled(t *testing.T) {
	for _, c := range []struct {
		method  string
		status  int
		body    string
		session string
		want    bool
	}{
		{http.MethodPost, http.StatusNotFound, "", "1", true},
		{http.MethodPost, http.StatusBadRequest, "No valid session ID provided", "1", true},
		{http.MethodGet, http.StatusNotFound, "", "1", false},
		{http.MethodGet, http.StatusBadRequest, "No valid session ID provided", "1", false},
		{http.MethodPost, http.StatusBadRequest, "What is this?", "1", false},
		{http.MethodPost, http.StatusNotFound, "", "", false},
	} {
		refused := &atomic.Bool{}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), refusedKey{}, refused), c.method, "/mcp", nil)
		r.Header.Set("Mcp-Session-Id", c.session)
		answer, err := forgotten{answering(func() *http.Response {
			return &http.Response{StatusCode: c.status, Body: io.NopCloser(strings.NewReader(c.body))}
		})}.RoundTrip(r)
		if err != nil || answer.Body.Close() != nil || refused.Load() != c.want {
			t.Errorf("%+v: %v, %v", c, refused.Load(), err)
		}
	}
}

// answering answers each request.
type answering func() *http.Response

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }
