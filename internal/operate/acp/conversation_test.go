package acp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/operate/acp"
	"lilac/internal/operate/client"
)

// editor speaks to an agent of the server at url.
type editor struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

func connect(t *testing.T, url string) *editor {
	t.Helper()
	c, err := client.Connect(client.Options{Addr: url, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		acp.Serve(ctx, acp.Options{Server: c, Logger: slog.New(slog.DiscardHandler)}, in, out)
		_ = out.Close()
	}()
	giveUp := time.AfterFunc(10*time.Second, func() { _ = fromAgent.Close() })
	t.Cleanup(func() {
		giveUp.Stop()
		cancel()
		_ = toAgent.Close()
		_ = fromAgent.Close()
		<-ended
	})
	return &editor{t, toAgent, bufio.NewScanner(fromAgent)}
}

func (e *editor) send(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

// until reads lines until one contains a text, and returns all of them.
func (e *editor) until(text string) (said string) {
	e.t.Helper()
	for e.lines.Scan() {
		if said += e.lines.Text() + "\n"; strings.Contains(e.lines.Text(), text) {
			return said
		}
	}
	e.t.Fatalf("the editor was told %s, want %s", said, text)
	return said
}

// A request asks right after the first call of a conversation that is opened. The editor gets the
// question, although the stream after the messages need not have it.
func TestAQuestionThatIsAskedWhileAConversationIsOpenedIsShown(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sessions/s1/messages":
			_, _ = fmt.Fprintf(w, `{"cursor":"%d","running":["r1"]}`, min(calls.Add(1), 2))
		case "/sessions/s1":
			paused := ""
			if calls.Add(1) > 1 {
				paused = `,"paused":{"number":1,"kind":"question","question":"Which color?","choices":["red"]}`
			}
			_, _ = io.WriteString(w, `{"id":"s1","activeRequest":"r1"`+paused+`}`)
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	t.Cleanup(server.Close) // after the end of the agent
	e := connect(t, server.URL)
	e.send(`{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s1","cwd":"/","mcpServers":[]}}`)
	if said := e.until("Which color?"); !strings.Contains(said, "session/request_permission") {
		t.Errorf("the editor was told %s, want the question", said)
	}
}

// A conversation that cannot be opened again, because the server refuses to show it, remains open: the
// editor still gets its updates.
func TestAConversationThatCannotBeOpenedAgainRemainsOpen(t *testing.T) {
	var refuses atomic.Bool
	more := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			select {
			case <-more:
				_, _ = io.WriteString(w, "id: 1\nevent: session.updated\ndata: {\"type\":\"session.updated\",\"payload\":{\"id\":\"s1\",\"title\":\"A new title\"}}\n\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			case <-r.Context().Done():
			}
		case refuses.Load():
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":{"kind":"not_found","message":"There is no session s1."}}`)
		case r.URL.Path == "/sessions/s1/messages":
			_, _ = io.WriteString(w, `{"cursor":"1"}`)
		default:
			_, _ = io.WriteString(w, `{"id":"s1"}`)
		}
	}))
	t.Cleanup(server.Close) // after the end of the agent
	e := connect(t, server.URL)
	e.send(`{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s1","cwd":"/","mcpServers":[]}}`)
	e.until(`"id":1`)
	refuses.Store(true)
	e.send(`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s1","cwd":"/","mcpServers":[]}}`)
	if said := e.until(`"id":2`); !strings.Contains(said, "There is no session s1.") {
		t.Errorf("the editor was told %s, want the refusal", said)
	}
	close(more)
	e.until("A new title")
}
