package llmtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/model/llm"
)

// closingServer answers the first call on each connection, and closes the connection when the second
// one arrives: the client has reused it before it heard that the server closes it. A server that
// answers nothing closes each connection at the first call.
type closingServer struct {
	answer string // "" for none
	calls  atomic.Int32
}

func (s *closingServer) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(t, conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func (s *closingServer) serve(t *testing.T, conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	for call := range 2 {
		req, err := http.ReadRequest(from)
		if err != nil {
			return // the client is done
		}
		if _, sent := req.Header["Idempotency-Key"]; sent {
			t.Error("a header was sent that is meant for the transport")
		}
		_, _ = io.Copy(io.Discard, req.Body)
		s.calls.Add(1)
		if call == 1 || s.answer == "" {
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(s.answer), s.answer)
	}
}

func TestACallOnAConnectionThatTheServerClosesIsRepeatedAtOnce(t *testing.T) {
	for name, build := range adapters {
		t.Run(name, func(t *testing.T) {
			server := &closingServer{answer: usageStreams[name].answer("{}")}
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			m := build(server.start(t), client, llm.Retry{Max: -1}, time.Minute)
			for range 2 {
				if h := collect(t.Context(), m, prompt); h.err != nil || h.text != "Yes." {
					t.Errorf("heard %q, %v", h.text, h.err)
				}
			}
			if calls := server.calls.Load(); calls != 3 {
				t.Errorf("there were %d calls, want 3", calls)
			}
			client.CloseIdleConnections()
		})
	}
}

// Control: a call on a new connection is not repeated there. Whether that makes sense is decided
// elsewhere.
func TestACallOnANewConnectionIsNotRepeatedByTheTransport(t *testing.T) {
	server := &closingServer{}
	client := &http.Client{Transport: &http.Transport{}}
	m := adapters["openai"](server.start(t), client, llm.Retry{Max: -1}, time.Minute)
	if h := collect(t.Context(), m, prompt); h.err == nil || server.calls.Load() != 1 {
		t.Errorf("heard %q after %d calls, %v", h.text, server.calls.Load(), h.err)
	}
}
