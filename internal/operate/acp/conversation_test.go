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
	defer server.Close()
	c, err := client.Connect(client.Options{Addr: server.URL, Token: "token"})
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
	defer func() {
		cancel()
		_ = toAgent.Close()
		_ = fromAgent.Close()
		<-ended
	}()
	if _, err := io.WriteString(toAgent, `{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s1","cwd":"/","mcpServers":[]}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	giveUp := time.AfterFunc(10*time.Second, func() { _ = fromAgent.Close() })
	defer giveUp.Stop()
	var said []string
	for lines := bufio.NewScanner(fromAgent); len(said) < 2 && lines.Scan(); {
		said = append(said, lines.Text())
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "session/request_permission") || !strings.Contains(all, "Which color?") {
		t.Errorf("the editor was told %s, want the question", all)
	}
}
