package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/client"
	"lilac/internal/testkit/effort"
)

// The server accepts messages while Redis is unreachable, but the stream then sends nothing. The
// chat must print the reason.
func TestChatPrintsWhyNoAnswerComes(t *testing.T) {
	var away atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"requestId":"terminal:s1:m","messageId":"m"}`)
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"parts":[{"name":"discord","status":"failed","message":"Discord is away"},{"name":"log","status":"failed","needed":true,"message":"Redis cannot be reached"}]}`)
		default:
			_, _ = io.WriteString(w, `{"parts":[{"name":"bus","status":"ok"}]}`)
		}
	}))
	defer s.Close()
	server, err := client.Connect(client.Options{Addr: s.URL, Token: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	talk := &talk{cli: &cli{printer: printer{out: &stdout, err: &stderr}}, server: server, session: "s1"}
	// quietly returns what watch prints after three ticks without an event. The fourth send
	// succeeds only when the third tick has been handled.
	quietly := func() string {
		stderr.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		tick, done := make(chan time.Time), make(chan struct{})
		go func() { defer close(done); talk.watch(ctx, tick) }()
		for range 4 {
			tick <- time.Time{}
		}
		cancel()
		<-done
		return stderr.String()
	}
	away.Store(true)
	if got := quietly(); got != "" {
		t.Errorf("who waits for nothing is told %q", got)
	}
	if _, err := talk.ask(t.Context(), "hi", event.Prompt); err != nil {
		t.Fatal(err)
	}
	if got, want := quietly(), "Waiting: Redis cannot be reached\n"; got != want {
		t.Errorf("who waits for the answer is told %q, want %q", got, want)
	}
	away.Store(false)
	if got := quietly(); got != "" {
		t.Errorf("a server that works is said to be %q", got)
	}
	away.Store(true)
	talk.show(event.EnvEvent{Type: event.StreamStart, Payload: []byte(`{"requestId":"terminal:s1:m"}`)})
	talk.show(event.EnvEvent{Type: event.StreamCompleted, Payload: []byte(`{"requestId":"terminal:s1:m","content":"Hello"}`)})
	if got := quietly(); got != "" {
		t.Errorf("who has the answer is told %q", got)
	}
}

// An interrupted chat cancels only its own request, which may be queued behind the request of
// another person.
func TestInterruptedChatCancelsOnlyItsRequest(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	stopped := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sessions/s1/messages":
			_, _ = io.WriteString(w, `{"messages":[],"cursor":"c0"}`)
		case "/sessions/s1/prompt":
			_, _ = io.WriteString(w, `{"requestId":"terminal:s1:m","messageId":"m"}`)
		case "/sessions/s1/cancel":
			body, _ := io.ReadAll(r.Body)
			stopped <- string(body)
			_, _ = io.WriteString(w, `{}`)
		default:
			giveUp()
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	server, err := client.Connect(client.Options{Addr: s.URL, Token: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	talk := &talk{cli: &cli{printer: printer{out: io.Discard, err: io.Discard}}, server: server, session: "s1"}
	if err := talk.once(ctx, "hi"); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("it ended with %v", err)
	}
	if got, want := <-stopped, `{"requestId":"terminal:s1:m"}`; strings.TrimSpace(got) != want {
		t.Errorf("stopped %s, want %s", got, want)
	}
}

// Ctrl-C while the message is being sent cancels the request if the server accepted the
// message.
func TestChatInterruptedWhileSendingCancelsItsRequest(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	stopped := make(chan string, 1)
	talk := talkTo(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sessions/s1/messages":
			_, _ = io.WriteString(w, `{"messages":[],"cursor":"c0"}`)
		case "/sessions/s1/prompt":
			giveUp()
			_, _ = io.WriteString(w, `{"requestId":"terminal:s1:m","messageId":"m"}`)
		case "/sessions/s1/cancel":
			body, _ := io.ReadAll(r.Body)
			stopped <- string(body)
			_, _ = io.WriteString(w, `{}`)
		default:
			<-r.Context().Done()
		}
	})
	if err := talk.once(ctx, "hi"); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("it ended with %v", err)
	}
	select {
	case got := <-stopped:
		if want := `{"requestId":"terminal:s1:m"}`; strings.TrimSpace(got) != want {
			t.Errorf("stopped %s, want %s", got, want)
		}
	default:
		t.Error("nothing was stopped")
	}
}

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// If the answer cannot be written, for example to a file on a full disk, the command fails.
func TestAnswerThatCannotBePrintedIsAnError(t *testing.T) {
	talk := talkTo(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sessions/s1/messages":
			_, _ = io.WriteString(w, `{"messages":[],"cursor":"c0"}`)
		case "/sessions/s1/prompt":
			_, _ = io.WriteString(w, `{"requestId":"terminal:s1:m","messageId":"m"}`)
		default:
			_, _ = io.WriteString(w, "event: stream.completed\ndata: "+`{"type":"stream.completed","payload":{"requestId":"terminal:s1:m","content":"Hello"}}`+"\n\n")
		}
	})
	talk.cli.out = full{}
	if err := talk.once(t.Context(), "hi"); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it ended with %v", err)
	}
}

// talkTo returns a talk in the session s1 with a server that h implements.
func talkTo(t *testing.T, h http.HandlerFunc) *talk {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	server, err := client.Connect(client.Options{Addr: s.URL, Token: "0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	return &talk{cli: &cli{printer: printer{out: io.Discard, err: io.Discard}}, server: server, session: "s1", done: make(chan struct{}, 1)}
}

// A line that the terminal may have truncated is not sent, because the user does not see that
// the end of the pasted text is missing.
func TestLineThatATerminalTruncatesIsNotSent(t *testing.T) {
	said := 0
	talk := talkTo(t, func(w http.ResponseWriter, _ *http.Request) {
		said++
		_, _ = io.WriteString(w, `{}`)
	})
	var out bytes.Buffer
	talk.cli.out, talk.typed = &out, true
	if talk.handleLine(t.Context(), strings.Repeat("x", maxTyped)); said != 0 || !strings.Contains(out.String(), "lilac chat --session s1 < FILE") {
		t.Errorf("said %d times: %q", said, out.String())
	}
	if talk.handleLine(t.Context(), strings.Repeat("x", maxTyped-1)); said != 1 {
		t.Errorf("a line that just fits is said %d times", said)
	}
}

func TestChatCanBeLeftWhileTheServerHangs(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	asked := make(chan struct{}, 1)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // needed to notice that the client disconnects
		asked <- struct{}{}
		<-r.Context().Done()
	}
	for name, leave := range map[string]func(signals chan<- os.Signal, ended chan<- struct{}){
		"Ctrl-C": func(signals chan<- os.Signal, _ chan<- struct{}) { signals <- os.Interrupt },
		"Ctrl-D": func(_ chan<- os.Signal, ended chan<- struct{}) { close(ended) },
	} {
		t.Run(name, func(t *testing.T) {
			talk := talkTo(t, hang)
			signals, lines, ended, left := make(chan os.Signal), make(chan string, 1), make(chan struct{}), make(chan error, 1)
			lines <- "hi"
			go func() { left <- talk.converse(t.Context(), signals, lines, ended) }()
			<-asked
			leave(signals, ended)
			select {
			case err := <-left:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second): // shorter than the 30 s timeout of the call
				t.Fatal("it is not left")
			}
		})
	}
}

// After a failed attempt to stop the answer, Ctrl-C tries again instead of leaving the chat.
func TestFailedStopCanBeRetried(t *testing.T) {
	stops := make(chan struct{})
	talk := talkTo(t, func(w http.ResponseWriter, _ *http.Request) {
		stops <- struct{}{}
		w.WriteHeader(http.StatusInternalServerError)
	})
	said, out := io.Pipe()
	defer said.Close()
	notes := bufio.NewScanner(said)
	talk.cli.out, talk.running = out, "terminal:s1:m"
	signals, left := make(chan os.Signal), make(chan error, 1)
	go func() { left <- talk.converse(t.Context(), signals, make(chan string), make(chan struct{})) }()
	for range 3 {
		signals <- os.Interrupt
		if notes.Scan(); !strings.Contains(notes.Text(), "press Ctrl-C again") {
			t.Fatalf("it says %q", notes.Text())
		}
		<-stops
		notes.Scan() // the reason for the failure
	}
	signals <- syscall.SIGTERM
	notes.Scan()
	if err := <-left; err != nil {
		t.Error(err)
	}
}
