package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Who follows a conversation in which nobody speaks has heard nothing for long
// when the server is started again.
func TestStreamWithoutEventsIsReopened(t *testing.T) {
	connections := 0 // they come one after the other
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if connections++; connections > 1 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			return
		}
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	c, err := Connect(Options{Addr: server.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	c.patience, c.steady = 0, 0 // every connection is a long one, and every wait too long
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := 0
	if err := c.Tail(ctx, "env", false, func(event.Event) error { came++; cancel(); return nil }); err != nil || came != 1 {
		t.Errorf("after a restart %d events came, %v", came, err)
	}
	// The control: one that ends as soon as it is opened is given up.
	c.steady = 1 << 62
	c.steady = 1 << 62
	connections = -1 << 30
	if err := c.Tail(t.Context(), "env", false, nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a stream that never lasts ends as %v", err)
	}
}
