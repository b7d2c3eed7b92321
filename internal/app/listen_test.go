package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lilac/internal/testkit/effort"
)

// A client that sends too slowly is disconnected, with or without a token; a client that waits
// for the server is not. The control has no limits, so only the client closes connections.
func TestASlowClientHoldsNoConnection(t *testing.T) {
	effort.SkipSlow(t)
	slow := map[string]string{
		"header":       "GET / HTTP/1.1\r\nHost: x\r\n",
		"body":         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n{",
		"pieces":       "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
		"next request": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	serve := func(t *testing.T, l clientLimits) (addr string, end func()) {
		release := make(chan struct{})
		s := httptest.NewUnstartedServer(nil)
		s.Config = l.server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/stream" {
				return
			}
			_ = http.NewResponseController(w).Flush()
			<-release
			_, _ = io.WriteString(w, map[bool]string{true: "it goes on", false: "it was cut off"}[r.Context().Err() == nil])
		}))
		s.Start()
		t.Cleanup(s.Close)
		return s.Listener.Addr().String(), func() { close(release) }
	}
	addr, end := serve(t, clientLimits{header: 20 * time.Millisecond, body: 30 * time.Millisecond, idle: 20 * time.Millisecond})
	// On a busy machine, even this client may exceed the limits.
	var stream *http.Response
	for deadline := time.Now().Add(patience); stream == nil; {
		response, err := http.Get("http://" + addr + "/stream")
		if err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
		stream = response
	}
	defer stream.Body.Close()
	for name, text := range slow {
		conn := say(t, addr, text)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		// Read until the server closes the connection. Writes after that cause a reset.
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
	}
	end()
	if rest, err := io.ReadAll(stream.Body); err != nil || string(rest) != "it goes on" {
		t.Errorf("the stream: %q, %v", rest, err)
	}

	addr, end = serve(t, clientLimits{})
	end()
	for name, text := range slow {
		conn := say(t, addr, text)
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := io.Copy(io.Discard, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s without limits: %v", name, err)
		}
	}
}

// say opens a connection and sends the beginning of a request.
func say(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, text) // the server may have closed the connection
	return conn
}

func TestAPortThatIsLeftInAMomentIsWaitedFor(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := before.Addr().String()
	if l, err := listen(t.Context(), addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("while it is taken: %v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listen(ctx, addr); !errors.Is(err, context.Canceled) {
		t.Errorf("when nobody wants it any more: %v", err)
	}
	time.AfterFunc(portPatience/10, func() { _ = before.Close() })
	after, err := listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
}

func TestAPortThatCannotBeUsedSaysWhatToDo(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EADDRINUSE:    "lilac login",
		syscall.EACCES:        "Choose a higher port",
		syscall.EADDRNOTAVAIL: "Choose another address",
	} {
		got := listenFault("127.0.0.1:80", err).Error()
		if !strings.Contains(got, want) || strings.Contains(got, "already running") != errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// Connections leave half of the file descriptors free, even if the limit is low.
func TestConnectionsLeaveHalfOfTheFiles(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if got := maxConnections(); got < 1 || got > mostConnections || uint64(got) > files.Cur/2 {
		t.Errorf("%d connections of %d files", got, files.Cur)
	}
}
