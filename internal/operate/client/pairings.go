package client

import (
	"context"
	"net/url"

	"lilac/internal/core/pairing"
)

// Pairings are the people who asked to send private messages.
type Pairings struct{ Client *Client }

// List lists them, newest code first.
func (p Pairings) List(ctx context.Context) ([]pairing.Row, error) {
	var out struct{ Pairings []pairing.Row }
	err := p.Client.Call(ctx, "GET", "/pairings", nil, &out)
	return out.Pairings, err
}

// Settle allows or denies the private messages of a person, by the code or the user's id.
func (p Pairings) Settle(ctx context.Context, name string, allow bool) (row pairing.Row, err error) {
	verb := "deny"
	if allow {
		verb = "approve"
	}
	return row, p.Client.Call(ctx, "POST", "/pairings/"+url.PathEscape(name)+"/"+verb, struct{}{}, &row)
}
