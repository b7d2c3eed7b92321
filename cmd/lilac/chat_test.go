package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/client"
	"lilac/internal/event"
	"lilac/internal/fault"
)

// A message is accepted while Redis is away, and the stream is silent then.
func TestChatTellsWhyNothingComes(t *testing.T) {
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
	talk := &talk{cli: &cli{out: &stdout, err: &stderr}, server: server, session: "s1"}
	// quietly is what is told when nothing comes three times in a row. The next
	// time is taken when the third one is over.
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

// What runs may be somebody else's answer, which mine waits behind.
func TestWhoGivesUpStopsWhatHeSaidAlone(t *testing.T) {
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
	talk := &talk{cli: &cli{out: io.Discard, err: io.Discard}, server: server, session: "s1"}
	if err := talk.once(ctx, "hi"); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("it ended with %v", err)
	}
	if got, want := <-stopped, `{"requestId":"terminal:s1:m"}`; strings.TrimSpace(got) != want {
		t.Errorf("stopped %s, want %s", got, want)
	}
}
