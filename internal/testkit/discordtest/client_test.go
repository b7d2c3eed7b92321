//go:build !race

package discordtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/disgoorg/disgo/gateway"
	"github.com/disgoorg/disgo/rest"
	"github.com/gorilla/websocket"

	"lilac/internal/testkit/discordtest"
)

// The library's gateway has data races between its heartbeats and its close. Under -race,
// only the tests that do not use the library exercise the server.

// client is the real client library, connected to a fake server.
type client struct {
	t *testing.T
	s *discordtest.Server
	rest.Rest
	gateway gateway.Gateway

	mu     sync.Mutex
	events []event
	ended  error
	woken  chan struct{}
}

type event struct {
	kind gateway.EventType
	seq  int
	data gateway.EventData
}

const intents = gateway.IntentGuilds | gateway.IntentGuildMessages | gateway.IntentGuildMessageReactions |
	gateway.IntentDirectMessages | gateway.IntentMessageContent

// connect opens a gateway connection with the library.
func connect(t *testing.T, s *discordtest.Server, opts ...gateway.ConfigOpt) *client {
	t.Helper()
	c := prepare(t, s, opts...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.gateway.Open(ctx); err != nil {
		t.Fatalf("open the gateway: %v", err)
	}
	t.Cleanup(func() { c.gateway.Close(context.Background()) })
	return c
}

func prepare(t *testing.T, s *discordtest.Server, opts ...gateway.ConfigOpt) *client {
	t.Helper()
	logger := quiet
	if os.Getenv("DISCORDTEST_DEBUG") != "" {
		logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	c := &client{t: t, s: s, woken: make(chan struct{}, 1), Rest: restOnly(t, s)}
	all := append([]gateway.ConfigOpt{
		gateway.WithURL(s.GatewayURL), gateway.WithCompression(gateway.CompressionNone), gateway.WithIntents(intents),
		gateway.WithLogger(logger), gateway.WithDialer(&websocket.Dialer{NetDialContext: s.Dial}),
		gateway.WithCloseHandler(func(_ gateway.Gateway, err error, _ bool) { c.take(func() { c.ended = err }) }),
	}, opts...)
	c.gateway = gateway.New(discordtest.DefaultToken, func(_ gateway.Gateway, kind gateway.EventType, seq int, data gateway.EventData) {
		c.take(func() { c.events = append(c.events, event{kind, seq, data}) })
	}, all...)
	return c
}

func (c *client) take(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// await waits until holds returns true for the received events.
func (c *client) await(what string, holds func([]event) bool) {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		fine := holds(c.events)
		c.mu.Unlock()
		if fine {
			return
		}
		select {
		case <-c.woken:
		case <-deadline:
			c.t.Fatalf("%s: not within 30 s; got %s", what, c.kinds())
		}
	}
}

func (c *client) kinds() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []gateway.EventType
	for _, e := range c.events {
		all = append(all, e.kind)
	}
	return fmt.Sprint(all)
}

// texts returns the contents of the received messages, in order.
func (c *client) texts() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return texts(c.events)
}

func texts(events []event) (all []string) {
	for _, e := range events {
		if m, ok := e.data.(gateway.EventMessageCreate); ok {
			all = append(all, m.Content)
		}
	}
	return all
}

func count(events []event, kind gateway.EventType) (n int) {
	for _, e := range events {
		if e.kind == kind {
			n++
		}
	}
	return n
}
