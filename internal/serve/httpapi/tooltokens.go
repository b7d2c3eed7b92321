package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"lilac/internal/agent/mcpclient"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/toolserver"
)

// Operators creates and revokes tokens for the tool server; see
// [toolserver.Operators].
type Operators interface {
	Create(ctx context.Context, name string, callables []string, life string) (token string, err error)
	List(ctx context.Context) ([]toolserver.OperatorToken, error)
	Revoke(ctx context.Context, name string) error
	Calls(ctx context.Context, limit int, before int64) ([]toolserver.OperatorCall, error)
}

// maxToolToken limits the description of a token, in bytes.
const maxToolToken = 64 << 10

// toolTokens serves the operator tokens of the tool server.
type toolTokens struct{ service Operators }

func (s *toolTokens) available() error {
	if s.service == nil {
		return fault.New(fault.Unavailable, "The tool server is not available on this server.")
	}
	return nil
}

type newToolToken struct {
	Name      string   `json:"name"`
	Callables []string `json:"callables"`
	Expires   string   `json:"expires,omitempty"`
}

// createdToolToken is the only response that contains the token.
type createdToolToken struct {
	Name      string   `json:"name"`
	Callables []string `json:"callables"`
	Token     string   `json:"token"`
}

func (s *toolTokens) create(r *http.Request, in newToolToken) (createdToolToken, error) {
	token, err := s.service.Create(r.Context(), in.Name, in.Callables, in.Expires)
	return createdToolToken{Name: in.Name, Callables: in.Callables, Token: token}, err
}

type toolTokenList struct {
	Tokens []toolserver.OperatorToken `json:"tokens"`
}

func (s *toolTokens) list(r *http.Request) (toolTokenList, error) {
	tokens, err := s.service.List(r.Context())
	return toolTokenList{append([]toolserver.OperatorToken{}, tokens...)}, err
}

func (s *toolTokens) revoke(r *http.Request) error {
	return s.service.Revoke(r.Context(), r.PathValue("name"))
}

type toolCallList struct {
	Calls []toolserver.OperatorCall `json:"calls"`
}

func (s *toolTokens) calls(r *http.Request) (out toolCallList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	before, err := rowBefore(r, fmt.Sprintf("before must be the id of a call, not %q.", r.URL.Query().Get("before")))
	if err != nil {
		return out, err
	}
	calls, err := s.service.Calls(r.Context(), limit, before)
	out.Calls = append([]toolserver.OperatorCall{}, calls...)
	return out, err
}

type mcpServerList struct {
	Servers []mcpclient.Status `json:"servers"`
}

func (a *api) mcpServers(*http.Request) (mcpServerList, error) {
	out := mcpServerList{Servers: []mcpclient.Status{}}
	if a.mcp != nil {
		out.Servers = a.mcp()
	}
	return out, nil
}

// retryMCP starts an MCP server at once that waits.
func (a *api) retryMCP(r *http.Request) error {
	if a.retry == nil {
		return fault.New(fault.NotFound, "There are no MCP servers.")
	}
	return a.retry(r.PathValue("name"))
}
