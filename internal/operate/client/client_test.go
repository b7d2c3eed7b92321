package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
)

const token = "token-of-the-operator"

// serve runs a server that checks the token, and announces it in a directory.
func serve(t *testing.T, h http.HandlerFunc) (dataDir string, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			t.Errorf("%s %s came without the token", r.Method, r.URL)
		}
		h(w, r)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	addr := strings.TrimPrefix(server.URL, "http://")
	write(t, filepath.Join(dir, "server.json"), fmt.Sprintf(`{"addr":%q,"pid":1}`, addr))
	write(t, filepath.Join(dir, "token"), token+"\n")
	return dir, server
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, dataDir string) *client.Client {
	t.Helper()
	c, err := client.Connect(client.Options{DataDir: dataDir})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The server says how to send a token; whoever has sent one needs to know which
// it was.
func TestARefusedTokenIsNamed(t *testing.T) {
	dir, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":{"kind":"unauthenticated","message":"A token is needed."}}`)
	})
	for from, o := range map[string]client.Options{
		"LILAC_TOKEN":               {DataDir: dir, Token: token},
		filepath.Join(dir, "token"): {DataDir: dir},
	} {
		c, err := client.Connect(o)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.Sessions(t.Context(), client.Page{})
		if fault.KindOf(err) != fault.Unauthenticated || !strings.Contains(err.Error(), "does not accept the token from "+from) {
			t.Errorf("a refused token of %s is told as %v", from, err)
		}
	}
}

func TestServerIsFoundByItsDataDirectory(t *testing.T) {
	dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.String() != "/sessions?before=b&limit=2" {
			t.Errorf("asked for %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"sessions":[{"id":"s1","client":"web","state":"idle"}]}`)
	})
	got, _, err := connect(t, dir).Sessions(t.Context(), client.Page{Limit: 2, Before: "b"})
	if err != nil || len(got) != 1 || got[0].ID != "s1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNoServerSaysHowToStartOne(t *testing.T) {
	_, err := client.Connect(client.Options{DataDir: t.TempDir()})
	if fault.KindOf(err) != fault.Unavailable || !client.NoServer(err) || !strings.Contains(err.Error(), "lilac serve") {
		t.Errorf("without server.json: %v", err)
	}
	_, err = client.Connect(client.Options{DataDir: t.TempDir(), Addr: "127.0.0.1:1"})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "no server has started") || !strings.Contains(err.Error(), "lilac serve") {
		t.Errorf("with an address, without a token: %v", err)
	}
	dir, server := serve(t, nil)
	server.Close()
	err = connect(t, dir).Ready(t.Context())
	if fault.KindOf(err) != fault.Unavailable || !client.NoServer(err) || !strings.Contains(err.Error(), "lilac serve") {
		t.Errorf("with a server that is gone: %v", err)
	}
}

func TestServerErrorIsReturnedAsAFault(t *testing.T) {
	dir, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"kind":"not_found","code":"no_session","message":"There is no such session.","field":"id"}}`)
	})
	_, err := connect(t, dir).Session(t.Context(), "a/b")
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.NotFound || e.Code != "no_session" || e.Field != "id" || client.NoServer(err) {
		t.Errorf("got %#v", err)
	}
}

func TestLocalTokenIsNotSentToOtherMachines(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), token)
	if _, err := client.Connect(client.Options{Addr: "lilac.example.org:80", DataDir: dir}); fault.KindOf(err) != fault.Unauthenticated {
		t.Errorf("another machine would get the token of this one: %v", err)
	}
	if _, err := client.Connect(client.Options{Addr: "lilac.example.org:80", DataDir: dir, Token: "given"}); err != nil {
		t.Errorf("control: a token that was given is refused: %v", err)
	}
	if c, err := client.Connect(client.Options{Addr: "0.0.0.0:7", DataDir: dir}); err != nil || c.Addr() != "http://127.0.0.1:7" {
		t.Errorf("a server that listens everywhere is not found here: %v", err)
	}
}

func TestChatWaitsWhileTheBusIsUnavailable(t *testing.T) {
	var calls atomic.Int32
	dir, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			_, _ = io.WriteString(w, `{"messages":[],"cursor":"","waiting":"Redis cannot be reached"}`)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"error":{"kind":"unavailable","message":"Redis cannot be reached"}}`)
		default:
			_, _ = io.WriteString(w, `{"messages":[],"cursor":"c7"}`)
		}
	})
	var why []string
	cursor, err := connect(t, dir).Now(t.Context(), "s", func(err error) { why = append(why, err.Error()) })
	if err != nil || cursor != "c7" || len(why) != 1 || !strings.Contains(why[0], "Redis cannot be reached") {
		t.Errorf("got %q, %v; told %q", cursor, err, why)
	}
	// The control: nobody waits for a server that does not run.
	server.Close()
	if _, err := connect(t, dir).Now(t.Context(), "s", func(error) { t.Error("a server that does not answer is waited for") }); !client.NoServer(err) {
		t.Errorf("got %v, want that there is no server", err)
	}
}

func TestPromptIsRetriedWithTheSameKey(t *testing.T) {
	var calls atomic.Int32
	keys := map[string]bool{}
	dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		if calls.Add(1) == 1 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close() // the outcome is unknown to the client
			return
		}
		var in struct{ Content, Queue string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Content != "hi" || in.Queue != "steer" {
			t.Errorf("body %+v, %v", in, err)
		}
		_, _ = io.WriteString(w, `{"success":true,"requestId":"web:s:m","messageId":"m"}`)
	})
	got, err := connect(t, dir).Prompt(t.Context(), "s", "hi", event.Steer)
	if err != nil || got.RequestID != "web:s:m" || calls.Load() != 2 {
		t.Errorf("got %+v, %v after %d calls", got, err, calls.Load())
	}
	if len(keys) != 1 || keys[""] {
		t.Errorf("keys are %v, want one", keys)
	}
}

func TestStreamResumesAfterTheLastHandledEvent(t *testing.T) {
	var calls atomic.Int32
	dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from := map[string]int{"c0": 1, "c2": 3, "c3": 4}[r.Header.Get("Last-Event-ID")]
		if from == 0 {
			t.Errorf("resumed after %q", r.Header.Get("Last-Event-ID"))
		}
		calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		for n := from; n <= 4; n++ {
			fmt.Fprintf(w, "id: c%d\nevent: stream.text\ndata: {\"id\":\"e%d\",\"type\":\"stream.text\"}\n\n", n, n)
			if n == 2 || n == 3 {
				return // the connection breaks
			}
		}
	})
	var got []string
	enough := errors.New("enough")
	err := connect(t, dir).Events(t.Context(), "s", "c0", func(f client.Frame) error {
		got = append(got, f.Event.ID)
		if f.Event.ID == "e4" {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls.Load() != 3 {
		t.Errorf("ended with %v after %d connections", err, calls.Load())
	}
	if diff := cmp.Diff([]string{"e1", "e2", "e3", "e4"}, got); diff != "" {
		t.Error(diff)
	}
}

// The server says where a stream begins before anything has happened.
func TestStreamThatBreaksBeforeItsFirstEventResumesFromItsStart(t *testing.T) {
	var cursors []string
	dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		cursors = append(cursors, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(cursors) {
		case 1:
			_, _ = io.WriteString(w, "id: c1\n\n")
		case 2: // breaks in the middle of an event
			_, _ = io.WriteString(w, "id: c2\ndata: {\"id\":")
		default:
			_, _ = io.WriteString(w, "id: c2\ndata: {\"id\":\"e\",\"type\":\"t\"}\n\n")
		}
	})
	enough := errors.New("enough")
	err := connect(t, dir).Tail(t.Context(), "env", false, func(event.Event) error { return enough })
	if diff := cmp.Diff([]string{"", "c1", "c1"}, cursors); diff != "" || !errors.Is(err, enough) {
		t.Errorf("ended with %v; cursors (-want +got):\n%s", err, diff)
	}
}

func TestStreamEndsWithItsContextAndWithRefusals(t *testing.T) {
	dir, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bus/gone/tail" {
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"error":{"kind":"gone","message":"Too old."}}`)
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	c := connect(t, dir)
	if err := c.Tail(t.Context(), "gone", true, nil); fault.KindOf(err) != fault.Gone {
		t.Errorf("a refusal gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Tail(ctx, "quiet", false, nil) }()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end of the context gave %v", err)
	}
}

// An id of dots would be a step in the path, and the answer that of another
// resource.
func TestIDOfDotsDoesNotChangeThePath(t *testing.T) {
	dir, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was asked for", r.URL) })
	c := connect(t, dir)
	for _, id := range []string{".", ".."} {
		if _, err := c.Story(t.Context(), id); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), `"`+id+`"`) {
			t.Errorf("the request %q: %v", id, err)
		}
		if err := c.DeleteSession(t.Context(), id); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the session %q: %v", id, err)
		}
	}
}
