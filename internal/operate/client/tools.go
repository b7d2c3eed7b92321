package client

import (
	"context"
	"net/url"

	"lilac/internal/serve/toolserver"
)

// CreateToolToken creates a token for the tool server. Only this call returns the token.
// Expires is its lifetime; see [toolserver.Operators.Create].
func (c *Client) CreateToolToken(ctx context.Context, name string, callables []string, expires string) (token string, err error) {
	var out struct{ Token string }
	err = c.Call(ctx, "POST", "/tools/tokens", map[string]any{"name": name, "callables": callables, "expires": expires}, &out)
	return out.Token, err
}

// ToolTokens lists the tokens for the tool server, without their secrets.
func (c *Client) ToolTokens(ctx context.Context) ([]toolserver.OperatorToken, error) {
	var out struct{ Tokens []toolserver.OperatorToken }
	err := c.Call(ctx, "GET", "/tools/tokens", nil, &out)
	return out.Tokens, err
}

// RevokeToolToken revokes a token.
func (c *Client) RevokeToolToken(ctx context.Context, name string) error {
	return c.Call(ctx, "DELETE", "/tools/tokens/"+url.PathEscape(name), nil, nil)
}

// ToolCalls lists the calls that used these tokens, newest first.
func (c *Client) ToolCalls(ctx context.Context, p Page) ([]toolserver.OperatorCall, error) {
	var out struct{ Calls []toolserver.OperatorCall }
	err := c.Call(ctx, "GET", withQuery("/tools/calls", p.query()), nil, &out)
	return out.Calls, err
}
