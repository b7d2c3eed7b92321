package toolserver

import (
	"context"
	"encoding/json"

	"lilac/internal/serve/toolwire"
)

// Pass lets the holder of an operator's token use the callables over another protocol, with
// the same rights, limits, and records as over this server's own.
type Pass struct {
	server *Server
	live   *liveToken
}

// Admit returns the pass of an operator's token. Tokens of the agent's commands are refused:
// they are for the socket in the sandbox.
func (s *Server) Admit(ctx context.Context, token string) (*Pass, error) {
	live, err := s.identify(ctx, token)
	if err != nil {
		return nil, err
	}
	if live.grant.Operator == "" {
		return nil, errToken
	}
	return &Pass{s, live}, nil
}

// Callables describes the callables that the token allows, by id.
func (p *Pass) Callables(ctx context.Context) (out []toolwire.Help, err error) {
	p.server.settle(ctx)
	for _, summary := range p.server.allowed(p.live.grant) {
		c, err := p.server.lookup(p.live.grant, summary.ID)
		if err != nil {
			continue // it is gone
		}
		help, err := c.help()
		if err != nil {
			return nil, err
		}
		out = append(out, help)
	}
	return out, nil
}

// Call calls a callable. show, which may be nil, gets lines about the progress.
func (p *Pass) Call(ctx context.Context, id string, input json.RawMessage, show func(line string)) (json.RawMessage, error) {
	return p.server.do(ctx, p.live, toolwire.Call{CallableID: id, Input: input}, show)
}
