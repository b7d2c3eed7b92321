package mcpclient

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// emittedMethod is the notification of servers that are sources of events. It is no part of
// the protocol. Its params have the event in data.
const emittedMethod = "notifications/eventsource/emitted"

// emitting takes the events of a server out of its messages, which the SDK would refuse. A
// server that sends more than can be published waits: only its own messages do.
type emitting struct {
	mcp.Transport
	take func(ctx context.Context, data json.RawMessage)
}

// Connect implements [mcp.Transport].
func (t emitting) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return emittingConn{c, t.take}, nil
}

type emittingConn struct {
	mcp.Connection
	take func(ctx context.Context, data json.RawMessage)
}

// Read implements [mcp.Connection].
func (c emittingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		r, ok := m.(*jsonrpc.Request)
		if err != nil || !ok || r.Method != emittedMethod || r.IsCall() {
			return m, err
		}
		var params struct {
			Data json.RawMessage `json:"data"`
		}
		if json.Unmarshal(r.Params, &params) == nil {
			c.take(ctx, params.Data)
		}
	}
}

// emit publishes an event of the server. An event that cannot be one is logged, and harms
// nothing.
func (s *server) emit(ctx context.Context, data json.RawMessage) {
	if err := s.o.Emit(ctx, s.name, data); err != nil && ctx.Err() == nil {
		s.log.Warn("an event of an MCP server is dropped", "reason", reason(err))
	}
}
